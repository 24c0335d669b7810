//! `weir-operator`: the controller and what is needed to install it.

fn main() {}
