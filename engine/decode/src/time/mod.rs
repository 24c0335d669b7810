//! Calendar arithmetic, time zones and Spark's ISO forms of date and time.
//!
//! Dates are days and timestamps microseconds since 1970-01-01, in the
//! proleptic Gregorian calendar, as Spark stores them. Nothing here reads the
//! clock; forms that need today's date are refused.

pub mod civil;
pub mod iso;
pub mod zone;

pub use civil::{Civil, DateTime, MICROS_PER_DAY, MICROS_PER_SECOND};
pub use iso::{parse_date, parse_timestamp, parse_timestamp_ntz};
pub use zone::Zone;
