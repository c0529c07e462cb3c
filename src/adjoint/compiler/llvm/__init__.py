"""Native code through llvmlite. Loaded on the first compilation: `import adjoint` does not import llvmlite."""
