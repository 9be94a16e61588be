//! A settler over the sessions of its subscriber: what each brings, how it ends, and
//! what the next one keeps.

use std::{
    collections::HashMap,
    sync::atomic::Ordering,
    task::{Context, Poll},
};

use ackgate_proto::v1;

use super::{Answer, Gathered, Given, Phase, Run, Settler, State};
use crate::{
    Problem,
    resume::{self, Fate, Fates, LaneName},
    stats::add,
};

/// Lanes beyond this are forgotten once nothing of them is in hand.
const MANY_LANES: usize = 10_000;

impl Settler {
    /// Begins a session that keeps what `resumed` says. Returns its number.
    pub(crate) fn begin(&self, resumed: Vec<v1::ResumeAnswer>, given: Given) -> u64 {
        let mut state = self.lock();
        state.given = given;
        state.session += 1;
        state.phase = Phase::Open;
        // The goodbye to a draining gateway was for its session alone.
        (state.draining, state.closing) = (false, false);
        let lost = state.keep(&Fates::new(resumed));
        let session = state.session;
        self.open.store(session, Ordering::Release);
        let names: Vec<Option<LaneName>> = lost
            .iter()
            .map(|run| state.lanes.get(&run.lane).cloned())
            .collect();
        state.forget_lanes(MANY_LANES);
        drop(state);
        for (run, name) in lost.into_iter().zip(names) {
            self.came_too_late(run, run.len(), name);
        }
        self.wake.notify_one();
        self.waiting.wake();
        session
    }

    /// The stream is gone. `broken`: it may be gone on with; else nothing that came
    /// from it counts any more, and what was gathered is counted as stale.
    pub(crate) fn end(&self, broken: bool) {
        self.open.store(0, Ordering::Release);
        let mut state = self.lock();
        state.gathered.credit = None;
        let lost = if broken && !state.closing {
            state.phase = Phase::Broken;
            0
        } else {
            state.phase = Phase::Over;
            state.gathered = Gathered::default();
            state.held = super::Held::default();
            state.out = 0;
            std::mem::take(&mut state.pending)
        };
        drop(state);
        add(&self.counters.stale_answers, lost);
        self.wake.notify_one();
        self.waiting.wake();
    }

    /// What to name to the gateway in the next session.
    pub(crate) fn manifest(&self) -> Vec<v1::Held> {
        let state = self.lock();
        let gathered = &state.gathered;
        let answered = gathered.answers.iter().map(|(run, _)| *run);
        let runs = state.held.runs().chain(gathered.acks.iter().copied());
        resume::manifest(runs.chain(answered), &state.lanes)
    }

    /// Runs of a batch were handed over.
    pub(crate) fn handed(&self, runs: &[Run], name: &LaneName) {
        let mut state = self.lock();
        for run in runs {
            state.out = state.out.saturating_add(run.len());
            state.held.insert(*run);
            if !state.lanes.contains_key(&run.lane) {
                state.forget_lanes(MANY_LANES);
                state.lanes.insert(run.lane, name.clone());
            }
        }
    }

    /// Fills in the name of the lane that the gateway reported a problem of.
    pub(crate) fn name_lane(&self, lane: u64, problem: &mut Problem) {
        if let Some(name) = self.lock().lanes.get(&lane) {
            problem.topic.clone_from(&name.topic);
            problem.partition = name.partition;
        }
    }

    /// The session that is open: 0 while there is none.
    pub(crate) fn session(&self) -> u64 {
        self.open.load(Ordering::Acquire)
    }

    /// Waits while it is open whether what earlier sessions brought still counts.
    /// Returns the open session; 0 if there is none to go on with.
    pub(crate) fn poll_session(&self, cx: &Context<'_>) -> Poll<u64> {
        if self.session() == 0 {
            self.waiting.register(cx.waker());
            if self.lock().phase == Phase::Broken {
                return Poll::Pending;
            }
        }
        Poll::Ready(self.session())
    }

    /// What the gateway said of the latest session.
    pub(crate) fn given(&self) -> Given {
        self.lock().given
    }

    /// Whether the run, or its first record, is still the program's to answer.
    pub(crate) fn is_held(&self, run: Run) -> bool {
        let state = self.lock();
        let run = state.named_now(run);
        !state.closing && state.held.has(run.lane, run.delivery, run.first)
    }

    /// The gateway has gone back in a lane: what was handed over at and above `first` is
    /// void and comes again. Verdicts that are under way are told so by the gateway.
    pub(crate) fn void(&self, lane: u64, first: i64) {
        let mut state = self.lock();
        let records = state.held.void(lane, first);
        state.out = state.out.saturating_sub(records);
        let wake = state.draining && state.out == 0;
        drop(state);
        if wake {
            self.wake.notify_one();
        }
    }

    /// Which records are still the program's to answer.
    pub(crate) fn retain(
        &self,
        lane: u64,
        records: Vec<v1::Record>,
        number: impl Fn(i64) -> u32,
    ) -> Vec<v1::Record> {
        let state = self.lock();
        let lane = state.renamed.get(&lane).copied().unwrap_or(lane);
        let mut records = records;
        records.retain(|record| state.held.has(lane, number(record.offset), record.offset));
        records
    }
}

impl State {
    /// Keeps what the gateway keeps, under the numbers that it has now. Returns
    /// verdicts that came too late.
    fn keep(&mut self, fates: &Fates) -> Vec<Run> {
        let mut lost = Vec::new();
        let mut renamed = HashMap::new();
        let mut held = super::Held::default();
        let lanes = std::mem::take(&mut self.lanes);
        let mut names = lanes.clone();
        let mut keep = |run: Run, each: &mut dyn FnMut(Run, Fate)| {
            let Some(name) = lanes.get(&run.lane) else {
                return each(run, Fate::Lost);
            };
            fates.of(run, name, |part, fate| {
                let part = if let Fate::Kept(lane) = fate {
                    if lane != run.lane {
                        renamed.insert(run.lane, lane);
                        names.insert(lane, name.clone());
                    }
                    Run { lane, ..part }
                } else {
                    part
                };
                each(part, fate);
            });
        };
        for run in self.held.runs() {
            keep(run, &mut |part, fate| {
                if matches!(fate, Fate::Kept(_)) {
                    held.insert(part);
                }
            });
        }
        let mut gathered = Gathered::default();
        let mut pending = 0;
        for run in std::mem::take(&mut self.gathered.acks) {
            keep(run, &mut |part, fate| match fate {
                Fate::Kept(_) => {
                    pending += part.len();
                    gathered.acks.push(part);
                }
                Fate::Settled => {}
                Fate::Lost => lost.push(part),
            });
        }
        for (run, answer) in std::mem::take(&mut self.gathered.answers) {
            keep(run, &mut |part, fate| match fate {
                Fate::Kept(_) => {
                    pending += part.len();
                    gathered.answers.push((part, Answer::clone(&answer)));
                }
                Fate::Settled => {}
                Fate::Lost => lost.push(part),
            });
        }
        for watcher in std::mem::take(&mut self.gathered.watchers) {
            let mut kept = None;
            keep(watcher.run, &mut |part, fate| {
                if matches!(fate, Fate::Kept(_)) && part.len() == watcher.run.len() {
                    kept = Some(part);
                }
            });
            // Others hear that their session has ended.
            gathered.watchers.extend(kept.map(|run| watcher.on(run)));
        }
        gathered.extensions = std::mem::take(&mut self.gathered.extensions);
        gathered.credit = self.gathered.credit.take();
        (self.out, self.held) = (held.len(), held);
        (self.gathered, self.pending, self.lanes) = (gathered, pending, names);
        self.rename(renamed);
        lost
    }

    /// Lanes have other numbers than before the reconnect.
    fn rename(&mut self, renamed: HashMap<u64, u64>) {
        let now = |lane: u64| renamed.get(&lane).copied().unwrap_or(lane);
        let extensions = std::mem::take(&mut self.gathered.extensions).into_iter();
        self.gathered.extensions = extensions
            .map(|((lane, first), extension)| ((now(lane), first), extension))
            .collect();
        let held = &self.held;
        self.renamed.retain(|_, lane| {
            *lane = now(*lane);
            held.has_lane(*lane)
        });
        self.renamed.extend(renamed);
    }

    /// Forgets lanes of which nothing is in hand, if there are more than `many`.
    fn forget_lanes(&mut self, many: usize) {
        if self.lanes.len() >= many {
            let held = &self.held;
            self.lanes.retain(|lane, _| held.has_lane(*lane));
        }
    }
}
