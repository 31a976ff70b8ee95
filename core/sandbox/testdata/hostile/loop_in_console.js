// expect: sandbox_timeout
console.log({ get x() { while (true) {} } })
