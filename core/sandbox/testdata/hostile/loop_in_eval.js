// expect: sandbox_timeout
(0, eval)("while (true) {}")
