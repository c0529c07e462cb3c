"""Native code through llvmlite. Loaded by the compiler only: `import adjoint` does not import llvmlite."""
