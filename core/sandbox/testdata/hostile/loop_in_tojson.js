// expect: sandbox_timeout
return { toJSON() { while (true) {} } }
