// expect: sandbox_timeout
try { while (true) {} } finally { while (true) {} }
