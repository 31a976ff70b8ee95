// expect: sandbox_timeout
new Function("while (true) {}")()
