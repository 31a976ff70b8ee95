// expect: ok
return { then(r) { r(1) } }
