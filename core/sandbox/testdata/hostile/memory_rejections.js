// expect: sandbox_memory sandbox_timeout
while (true) Promise.reject(new Error("x"))
