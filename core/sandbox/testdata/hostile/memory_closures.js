// expect: sandbox_memory
let f = () => 0; while (true) { const g = f; f = () => g }
