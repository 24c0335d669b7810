//! The ticks of a schedule: begun, or skipped with an event.
//!
//! Every tick is handled once. Only the newest due tick can begin a run; it is
//! skipped when it is later than `startingDeadline`, while a run is alive and
//! while the job is suspended. Older ones are always skipped. A changed
//! expression starts from now: it has no past ticks.

use weir_crds::policy::JobTrigger;

use crate::decide::Pass;
use crate::desired::Lifetime;
use crate::events::EventReason;
use crate::memory::{NextStart, ScheduleMemory, StartReason};
use crate::observed::Shutdown;
use crate::schedule::Schedule;
use crate::time::{Timestamp, elapsed, rfc3339};

/// A handled tick further ahead than this comes from a clock that was wrong.
const PLAUSIBLE_AHEAD: std::time::Duration = std::time::Duration::from_secs(3600);

/// Handles the ticks that are due.
pub(super) fn apply(pass: &mut Pass<'_>) {
    let (JobTrigger::Schedule(rules), Some(schedule)) = (&pass.desired.rules.trigger, pass.desired.schedule()) else {
        pass.memory.schedule = None;
        return;
    };
    let one_run = matches!(pass.desired.lifetime, Lifetime::OneRun { .. });
    let handled = handled(pass, schedule);
    let due = schedule.last_until(pass.now).filter(|tick| *tick > handled);
    // While one run is asked for, or the supervisor ends, ticks pass unseen.
    let unseen = one_run || pass.observed.shutdown != Shutdown::None;
    if let Some(tick) = due.filter(|_| !unseen) {
        let late = rules.starting_deadline.is_some_and(|limit| elapsed(tick, pass.now) > limit);
        take_or_skip(pass, schedule, handled, tick, late);
    }
    let handled = due.unwrap_or(handled);
    pass.memory.schedule = Some(ScheduleMemory { identity: schedule.identity(), handled });
}

fn handled(pass: &Pass<'_>, schedule: &Schedule) -> Timestamp {
    match &pass.memory.schedule {
        Some(known) if known.identity == schedule.identity() => {
            let implausible = elapsed(pass.now, known.handled) > PLAUSIBLE_AHEAD;
            if implausible { pass.now } else { known.handled }
        }
        _ => pass.now,
    }
}

fn take_or_skip(pass: &mut Pass<'_>, schedule: &Schedule, handled: Timestamp, tick: Timestamp, late: bool) {
    if let Some(older) = schedule.next_after(handled).filter(|older| *older < tick) {
        let note = format!("ticks from {} until {} were missed", rfc3339(older), rfc3339(tick));
        pass.tell(EventReason::TickSkipped, note);
    }
    let obstacle = if pass.desired.rules.suspend {
        Some("the job is suspended")
    } else if pass.memory.run.is_some() {
        Some("a run is alive")
    } else if late {
        Some("it is past startingDeadline")
    } else {
        None
    };
    match obstacle {
        Some(obstacle) => {
            pass.tell(EventReason::TickSkipped, format!("the tick of {} was skipped: {obstacle}", rfc3339(tick)));
        }
        None => pass.memory.next_start = Some(NextStart { at: pass.now, reason: StartReason::Tick }),
    }
}
