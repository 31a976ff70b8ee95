// expect: result_too_large sandbox_memory
return "\u0001".repeat(1e6)
