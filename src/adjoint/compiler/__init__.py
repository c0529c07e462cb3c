"""From a function to native code: `jit`, its specializations, lowering, code generation, runtime."""
