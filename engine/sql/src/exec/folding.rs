//! Which constants the planner may compute.
//!
//! A constant expression is computed once, while the plan is made, and stands in
//! it as a literal, which the planner copies, compares and prints many times. A
//! large one stays an expression and is computed with the rows.

use std::cell::Cell;

use datafusion::common::Result;

use crate::error::spark_error;

/// The most bytes of a constant that becomes a literal.
const MOST_BYTES: usize = 64 << 10;

thread_local! {
    static IS_PLANNING: Cell<bool> = const { Cell::new(false) };
}

/// Makes a plan: a large constant is not computed meanwhile.
pub fn while_planning<T>(make: impl FnOnce() -> T) -> T {
    struct Ends(bool);
    impl Drop for Ends {
        fn drop(&mut self) {
            IS_PLANNING.set(self.0);
        }
    }
    let _ends = Ends(IS_PLANNING.replace(true));
    make()
}

/// Refuses to make a literal of a constant of that many bytes; the planner then keeps the expression.
pub fn judge(function: &str, bytes: usize) -> Result<()> {
    if IS_PLANNING.get() && bytes > MOST_BYTES {
        return Err(spark_error("WEIR_CONSTANT_TOO_LARGE", format!("the value of {function} is too large for a literal")));
    }
    Ok(())
}
