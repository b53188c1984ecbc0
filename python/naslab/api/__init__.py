"""What `import naslab` offers to Python programs; `naslab` itself loads these parts when they are asked for."""
