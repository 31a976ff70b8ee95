// expect: sandbox_timeout
while (true) {}
