// expect: call_limit sandbox_timeout sandbox_memory
while (true) setTimeout(() => {}, 1)
