//! Which lane goes to whom: a fair share for everybody who takes records, with as few
//! moves as that needs. Pure; the same lanes and subscribers give the same plan.

use std::collections::BTreeMap;

use ackgate_lane::Subscriber;

/// A lane as the plan sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seat {
    pub(super) holder: Option<Subscriber>,
    /// Its holder's stream broke, and it may come back: the lane is left alone.
    pub(super) is_awaited: bool,
    /// Something of it is out: it cannot move now.
    pub(super) is_busy: bool,
    /// It was to move as soon as it can.
    pub(super) is_leaving: bool,
}

/// What happens to a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    /// Nothing.
    Stay,
    /// Nothing more is handed out on it; it moves when nothing is out.
    Leave,
    /// It goes to this subscriber, now.
    To(Subscriber),
    /// It goes to nobody.
    Free,
}

/// One step for each lane, in their order. `lively`: those who take records.
pub(super) fn plan(seats: &[Seat], lively: &[Subscriber]) -> Vec<Move> {
    let mut held: BTreeMap<Subscriber, Vec<usize>> = lively
        .iter()
        .map(|subscriber| (*subscriber, Vec::new()))
        .collect();
    let mut moves = vec![Move::Stay; seats.len()];
    // Lanes that have to go somewhere; busy ones among them later.
    let mut homeless: Vec<usize> = Vec::new();
    let mut shared = 0;
    for (at, seat) in seats.iter().enumerate() {
        if seat.is_awaited {
            continue;
        }
        shared += 1;
        match seat.holder.and_then(|holder| held.get_mut(&holder)) {
            Some(lanes) => lanes.push(at),
            None => homeless.push(at),
        }
    }
    let shares = shares(&held, shared);
    for (subscriber, lanes) in &mut held {
        let share = shares.get(subscriber).copied().unwrap_or_default();
        // Those on their way go first, then those that can go now.
        lanes.sort_by_key(|at| seats.get(*at).map(|seat| (seat.is_leaving, !seat.is_busy)));
        homeless.extend(lanes.drain(share.min(lanes.len())..));
    }
    homeless.sort_unstable();
    for at in homeless {
        let (Some(seat), Some(step)) = (seats.get(at), moves.get_mut(at)) else {
            continue;
        };
        *step = if seat.is_busy && seat.holder.is_some() {
            Move::Leave
        } else {
            // The fewest lanes first, as far as the shares go.
            let due = held
                .iter_mut()
                .filter(|(subscriber, lanes)| {
                    lanes.len() < shares.get(*subscriber).copied().unwrap_or_default()
                })
                .min_by_key(|(subscriber, lanes)| (lanes.len(), **subscriber));
            match due {
                Some((subscriber, lanes)) => {
                    lanes.push(at);
                    Move::To(*subscriber)
                }
                None => Move::Free,
            }
        };
    }
    moves
}

/// How many lanes are everybody's fair share. Where it does not come out even, those
/// who have most keep one more.
fn shares(held: &BTreeMap<Subscriber, Vec<usize>>, lanes: usize) -> BTreeMap<Subscriber, usize> {
    let (Some(least), Some(more)) = (lanes.checked_div(held.len()), lanes.checked_rem(held.len()))
    else {
        return BTreeMap::new();
    };
    let mut by_count: Vec<(usize, Subscriber)> = held
        .iter()
        .map(|(subscriber, lanes)| (lanes.len(), *subscriber))
        .collect();
    by_count.sort_unstable_by_key(|(count, subscriber)| (std::cmp::Reverse(*count), *subscriber));
    by_count
        .into_iter()
        .enumerate()
        .map(|(at, (_, subscriber))| (subscriber, least + usize::from(at < more)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: Seat = Seat {
        holder: None,
        is_awaited: false,
        is_busy: false,
        is_leaving: false,
    };

    fn subscribers(count: u64) -> Vec<Subscriber> {
        (1..=count).map(Subscriber).collect()
    }

    /// The plan, carried out.
    fn carried_out(seats: &[Seat], moves: &[Move]) -> Vec<Seat> {
        let moved = |(seat, step): (&Seat, &Move)| match step {
            Move::Stay => Seat {
                is_leaving: false,
                ..*seat
            },
            Move::Leave => Seat {
                is_leaving: true,
                ..*seat
            },
            Move::To(subscriber) => Seat {
                holder: Some(*subscriber),
                ..FREE
            },
            Move::Free => FREE,
        };
        seats.iter().zip(moves).map(moved).collect()
    }

    fn counts(seats: &[Seat], of: &[Subscriber]) -> Vec<usize> {
        of.iter()
            .map(|one| {
                seats
                    .iter()
                    .filter(|seat| seat.holder == Some(*one))
                    .count()
            })
            .collect()
    }

    #[test]
    fn sixteen_lanes_are_spread_over_three_and_then_nothing_moves() {
        let three = subscribers(3);
        let seats = vec![FREE; 16];
        let seats = carried_out(&seats, &plan(&seats, &three));
        assert_eq!(counts(&seats, &three), [6, 5, 5]);
        assert_eq!(plan(&seats, &three), vec![Move::Stay; 16]);
    }

    #[test]
    fn newcomer_gets_its_share_from_those_above_it_and_no_lane_moves_twice() {
        let four = subscribers(4);
        let seats = vec![FREE; 16];
        let seats = carried_out(&seats, &plan(&seats, &four[..1]));
        assert_eq!(counts(&seats, &four), [16, 0, 0, 0]);
        let moves = plan(&seats, &four);
        let seats = carried_out(&seats, &moves);
        assert_eq!(counts(&seats, &four), [4, 4, 4, 4]);
        assert_eq!(plan(&seats, &four), vec![Move::Stay; 16]);
    }

    #[test]
    fn busy_lane_leaves_before_it_moves_and_the_same_ones_go_on_leaving() {
        let two = subscribers(2);
        let busy = Seat {
            holder: Some(two[0]),
            is_busy: true,
            ..FREE
        };
        let seats = vec![busy; 4];
        let moves = plan(&seats, &two);
        assert_eq!(moves.iter().filter(|step| **step == Move::Leave).count(), 2);
        let mut seats = carried_out(&seats, &moves);
        assert_eq!(plan(&seats, &two), moves, "the choice stands");
        let leaving = moves
            .iter()
            .position(|step| *step == Move::Leave)
            .expect("one");
        seats[leaving].is_busy = false;
        assert_eq!(plan(&seats, &two)[leaving], Move::To(two[1]));
    }

    #[test]
    fn paused_holder_loses_its_lanes_and_nobody_gets_them_if_nobody_takes_records() {
        let seats = [
            Seat {
                holder: Some(Subscriber(1)),
                ..FREE
            },
            Seat {
                holder: Some(Subscriber(1)),
                is_busy: true,
                ..FREE
            },
        ];
        assert_eq!(plan(&seats, &[]), [Move::Free, Move::Leave]);
        let other = [Subscriber(2)];
        assert_eq!(plan(&seats, &other), [Move::To(other[0]), Move::Leave]);
    }

    #[test]
    fn lane_of_one_that_may_come_back_is_left_alone() {
        let seats = [
            Seat {
                holder: Some(Subscriber(1)),
                is_awaited: true,
                is_busy: true,
                ..FREE
            },
            FREE,
        ];
        let other = [Subscriber(2)];
        assert_eq!(plan(&seats, &other), [Move::Stay, Move::To(other[0])]);
    }

    #[test]
    fn more_subscribers_than_lanes_leave_some_on_standby() {
        let three = subscribers(3);
        let seats = vec![FREE; 2];
        let seats = carried_out(&seats, &plan(&seats, &three));
        assert_eq!(counts(&seats, &three), [1, 1, 0]);
        assert_eq!(plan(&seats, &three), [Move::Stay, Move::Stay]);
    }
}
