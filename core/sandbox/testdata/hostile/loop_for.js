// expect: sandbox_timeout
for (;;) { Math.sqrt(2) }
