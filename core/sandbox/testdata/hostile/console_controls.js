// expect: ok
for (let i = 0; i < 1e4; i++) console.log("\u0000\n{\"kind\":\"turn\"}\u2028"); return 1
