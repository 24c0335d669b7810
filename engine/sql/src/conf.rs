//! The session settings that change what SQL means.

use weir_decode::time::Zone;

/// Settings of one query.
#[derive(Clone, Debug)]
pub struct SqlConf {
    /// `spark.sql.ansi.enabled`: errors instead of nulls and wrap-around.
    pub ansi: bool,
    /// `spark.sql.session.timeZone`.
    pub time_zone: String,
    /// `spark.sql.caseSensitive`.
    pub case_sensitive: bool,
}

impl Default for SqlConf {
    fn default() -> Self {
        Self { ansi: true, time_zone: "UTC".to_owned(), case_sensitive: false }
    }
}

impl SqlConf {
    /// The session's zone.
    pub fn zone(&self) -> Result<Zone, weir_core::Error> {
        Zone::parse(&self.time_zone).ok_or_else(|| {
            weir_core::Error::config(
                "INVALID_CONF_VALUE.TIME_ZONE",
                format!(
                    "spark.sql.session.timeZone is `{}`, which is no time zone; write a region such as Europe/Berlin or an offset such as +02:00",
                    self.time_zone
                ),
            )
        })
    }
}
