// expect: sandbox_timeout
while (true) { try { while (true) {} } catch {} finally { continue } }
