// expect: result_too_large
return "x".repeat(3e6)
