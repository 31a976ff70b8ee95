// expect: ok
for (let i = 0; i < 5000; i++) setTimeout(() => {}, i); return 1
