// expect: sandbox_timeout
"a".replace(/a/, () => { while (true) {} })
