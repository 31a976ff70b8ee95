// expect: sandbox_timeout
async function f() { while (true) await null } f(); return 1
