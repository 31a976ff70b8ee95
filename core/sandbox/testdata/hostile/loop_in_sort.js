// expect: sandbox_timeout
[3, 2, 1].sort(() => { while (true) {} })
