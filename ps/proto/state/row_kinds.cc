#include "ps/proto/state/row_kinds.h"

#include <algorithm>
#include <utility>

#include "ps/proto/codec/state_fields.h"

namespace ps::proto {
namespace {

using Numbers = std::vector<uint64_t>;

/// Copies a field into a state that has nothing there yet.
template <typename From, typename To>
void CopyField(const From& from, const To& to) {
  if constexpr (requires { typename decltype(from.value)::Items; }) {
    using Items = typename decltype(from.value)::Items;
    if constexpr (requires { Items(from.value.Get()); }) {
      to.value.Set(Items(from.value.Get()));
    } else {
      const auto items = from.value.Get();
      to.value.Set(Items(items.begin(), items.end()));
    }
  } else {
    to.value = from.value;
  }
}

/// Copies the fields that are of these parts, and of no others as well.
void CopyParts(uint32_t parts, const JobState& from, JobState* to) {
  ListFields(from, [&](const auto&... in) {
    ListFields(*to, [&](const auto&... out) {
      ((in.kRules.limits.parts == parts ? CopyField(in, out) : void()), ...);
    });
  });
  if (parts == kTotalsPart) {
    to->membership.generation = from.membership.generation;
    to->membership.incarnation_max = from.membership.incarnation_max;
    to->membership.gone_before = from.membership.gone_before;
    to->events.before = from.events.before;
    to->seats.next = from.seats.next;
    to->ledger.last_lease = from.ledger.last_lease;
    to->rounds.committed = from.rounds.committed;
  }
}

/// The whole of something that every state has once.
template <uint32_t kParts>
constexpr RowKindInfo Once(std::string_view name) {
  return {
      name,
      kParts,
      true,
      [](const JobState& /*state*/, Numbers* numbers) { numbers->push_back(0); },
      [](const JobState& state, uint64_t number, JobState* piece) {
        CopyParts(kParts, state, piece);
        return number == 0;
      },
      [](JobState* piece, uint64_t number, JobState* state) {
        CopyParts(kParts, *piece, state);
        return number == 0;
      }};
}

template <typename K, typename V>
K KeyOf(const std::pair<const K, V>& entry) {
  return entry.first;
}

template <typename K>
K KeyOf(const K& key) {
  return key;
}

/// A map by an id, or a set of ids: a row for each entry. `kOf` gives it of a state.
template <uint32_t kParts, auto kOf>
constexpr RowKindInfo Entries(std::string_view name) {
  return {
      name,
      kParts,
      false,
      [](const JobState& state, Numbers* numbers) {
        for (const auto& entry : kOf(state)) {
          numbers->push_back(KeyOf(entry).value);
        }
      },
      [](const JobState& state, uint64_t number, JobState* piece) {
        const auto& from = kOf(state);
        using Key = typename std::remove_cvref_t<decltype(from)>::key_type;
        const auto it = from.find(Key(static_cast<decltype(Key::value)>(number)));
        if (it == from.end() || KeyOf(*it).value != number) {
          return false;
        }
        kOf(*piece).insert(*it);
        return true;
      },
      [](JobState* piece, uint64_t number, JobState* state) {
        auto& from = kOf(*piece);
        const bool is_it = from.size() == 1 && KeyOf(*from.begin()).value == number;
        kOf(*state).merge(from);
        return is_it && from.empty();
      }};
}

/// A list: a row for each place, from `kFirst` on.
template <uint32_t kParts, auto kOf, auto kFirst>
constexpr RowKindInfo Places(std::string_view name) {
  return {
      name,
      kParts,
      false,
      [](const JobState& state, Numbers* numbers) {
        for (size_t i = 0; i < kOf(state).size(); ++i) {
          numbers->push_back(kFirst(state) + i);
        }
      },
      [](const JobState& state, uint64_t number, JobState* piece) {
        const auto& from = kOf(state);
        if (number < kFirst(state) || number - kFirst(state) >= from.size()) {
          return false;
        }
        kOf(*piece).push_back(from[number - kFirst(state)]);
        return true;
      },
      [](JobState* piece, uint64_t number, JobState* state) {
        auto& from = kOf(*piece);
        auto& to = kOf(*state);
        const bool is_it = from.size() == 1 && number == kFirst(*state) + to.size();
        std::move(from.begin(), from.end(), std::back_inserter(to));
        return is_it;
      }};
}

constexpr auto kFromZero = [](const JobState& /*state*/) { return uint64_t{0}; };

template <typename Copy>
bool CopySeatWith(const SeatsState& from, WorkerId seat, Copy copy) {
  const bool is_added = copy(from.added.find(seat), from.added.end(), &SeatsState::added);
  const bool is_scaled = copy(from.scaled.find(seat), from.scaled.end(), &SeatsState::scaled);
  const bool is_expected =
      copy(from.expected.find(seat), from.expected.end(), &SeatsState::expected);
  copy(from.returning.find(seat), from.returning.end(), &SeatsState::returning);
  const bool has_end = copy(from.ends.find(seat), from.ends.end(), &SeatsState::ends);
  const bool has_launch =
      copy(from.launches.find(seat), from.launches.end(), &SeatsState::launches);
  const bool has_losses =
      copy(from.fruitless.find(seat), from.fruitless.end(), &SeatsState::fruitless);
  return is_added || is_scaled || is_expected || has_end || has_launch || has_losses;
}

bool CopySeat(const SeatsState& from, uint64_t number, SeatsState* to) {
  const WorkerId seat(static_cast<uint32_t>(number));
  return CopySeatWith(from, seat, [&](auto it, auto end, auto member) {
    if (it != end) {
      (to->*member).insert(*it);
    }
    return it != end;
  });
}

void ListSeats(const JobState& state, Numbers* numbers) {
  std::set<WorkerId> seats = state.seats.expected;
  for (const auto& [seat, fault] : state.seats.added) {
    seats.insert(seat);
  }
  for (const auto& [seat, group] : state.seats.scaled) {
    seats.insert(seat);
  }
  for (const auto& [seat, end] : state.seats.ends) {
    seats.insert(seat);
  }
  for (const auto& [seat, launch] : state.seats.launches) {
    seats.insert(seat);
  }
  for (const auto& [seat, losses] : state.seats.fruitless) {
    seats.insert(seat);
  }
  for (const WorkerId seat : seats) {
    numbers->push_back(seat.value);
  }
}

bool MergeSeat(SeatsState* piece, uint64_t number, SeatsState* to) {
  const bool is_it = CopySeat(*piece, number, to);
  return is_it && piece->added.size() <= 1 && piece->scaled.size() <= 1 &&
         piece->expected.size() <= 1 && piece->returning.size() <= 1 && piece->ends.size() <= 1 &&
         piece->launches.size() <= 1 && piece->fruitless.size() <= 1;
}

constexpr RowKindInfo kSeatRows = {
    "seat",
    kSeatsPart,
    false,
    ListSeats,
    [](const JobState& state, uint64_t number, JobState* piece) {
      return number <= UINT32_MAX && CopySeat(state.seats, number, &piece->seats);
    },
    [](JobState* piece, uint64_t number, JobState* state) {
      return number <= UINT32_MAX && MergeSeat(&piece->seats, number, &state->seats);
    }};

constexpr RowKindInfo kPartRows = {
    "evaluation",
    kEvaluationsPart,
    false,
    [](const JobState& state, Numbers* numbers) {
      for (const Evaluation& evaluation : state.evaluations.pending) {
        for (size_t i = 0; i < evaluation.parts.size(); ++i) {
          numbers->push_back(PartNumber(evaluation.epoch, i));
        }
      }
    },
    [](const JobState& state, uint64_t number, JobState* piece) {
      const auto epoch = static_cast<uint32_t>(number >> 32);
      const std::vector<Evaluation>& from = state.evaluations.pending;
      const auto it = std::ranges::find(from, epoch, &Evaluation::epoch);
      const uint64_t place = number & UINT32_MAX;
      if (it == from.end() || place >= it->parts.size()) {
        return false;
      }
      const bool has_sums = place < it->sums.size();
      piece->evaluations.pending.push_back(
          {epoch, {it->parts[place]}, {has_sums ? it->sums[place] : MetricSums()}, it->is_last});
      return true;
    },
    [](JobState* piece, uint64_t number, JobState* state) {
      std::vector<Evaluation>& from = piece->evaluations.pending;
      std::vector<Evaluation>& to = state->evaluations.pending;
      if (from.size() != 1 || from[0].parts.size() != 1) {
        return false;
      }
      if (to.empty() || to.back().epoch != from[0].epoch) {
        to.push_back({from[0].epoch, {}, {}, from[0].is_last});
      }
      std::vector<EvaluationPart>& parts = to.back().parts;
      const bool is_it = number == PartNumber(from[0].epoch, parts.size());
      parts.push_back(from[0].parts[0]);
      to.back().sums.push_back(from[0].sums.empty() ? MetricSums() : from[0].sums[0]);
      return is_it;
    }};

constexpr RowKindInfo kResultRows = {
    "result",
    kEvaluationsPart,
    false,
    [](const JobState& state, Numbers* numbers) {
      for (const EvaluationRow& row : state.evaluations.results) {
        numbers->push_back(row.epoch);
      }
      if (state.evaluations.last) {
        numbers->push_back(kLastResult);
      }
    },
    [](const JobState& state, uint64_t number, JobState* piece) {
      if (number == kLastResult) {
        piece->evaluations.last = state.evaluations.last;
        piece->evaluations.last_figures = state.evaluations.last_figures;
        return state.evaluations.last.has_value();
      }
      const std::vector<EvaluationRow>& from = state.evaluations.results;
      const auto it = std::ranges::find(from, number, &EvaluationRow::epoch);
      if (it == from.end()) {
        return false;
      }
      piece->evaluations.results.push_back(*it);
      const std::vector<ResultFigures>& figures = state.evaluations.figures;
      if (const auto own = std::ranges::find(figures, number, &ResultFigures::epoch);
          own != figures.end()) {
        piece->evaluations.figures.push_back(*own);
      }
      return true;
    },
    [](JobState* piece, uint64_t number, JobState* state) {
      const std::vector<EvaluationRow>& from = piece->evaluations.results;
      if (number == kLastResult) {
        state->evaluations.last = piece->evaluations.last;
        state->evaluations.last_figures = std::move(piece->evaluations.last_figures);
        return from.empty() && state->evaluations.last.has_value();
      }
      if (from.size() != 1 || from[0].epoch != number) {
        return false;
      }
      state->evaluations.results.push_back(from[0]);
      std::vector<ResultFigures>& figures = piece->evaluations.figures;
      if (figures.size() == 1 && figures[0].epoch == number) {
        state->evaluations.figures.push_back(std::move(figures[0]));
      }
      return figures.size() <= 1;
    }};

constexpr RowKindInfo kCommitRows = {
    "commit",
    kRoundsPart,
    false,
    [](const JobState& state, Numbers* numbers) {
      if (state.rounds.commit) {
        numbers->push_back(0);
      }
    },
    [](const JobState& state, uint64_t number, JobState* piece) {
      piece->rounds.commit = state.rounds.commit;
      return number == 0 && state.rounds.commit.has_value();
    },
    [](JobState* piece, uint64_t number, JobState* state) {
      state->rounds.commit = std::move(piece->rounds.commit);
      return number == 0 && state->rounds.commit.has_value();
    }};

constexpr RowKindInfo kPolicyRows = {
    "policy",
    kPolicyPart,
    false,
    [](const JobState& state, Numbers* numbers) {
      if (state.policy != PolicyRecord()) {
        numbers->push_back(0);
      }
    },
    [](const JobState& state, uint64_t number, JobState* piece) {
      piece->policy = state.policy;
      return number == 0 && state.policy != PolicyRecord();
    },
    [](JobState* piece, uint64_t number, JobState* state) {
      state->policy = std::move(piece->policy);
      return number == 0;
    }};

// What rows are entries or places of.
constexpr auto kShards = [](auto& s) -> auto& {
  return s.shards;
};
constexpr auto kMembers = [](auto& s) -> auto& {
  return s.membership.members;
};
constexpr auto kDepartures = [](auto& s) -> auto& {
  return s.membership.departures;
};
constexpr auto kGone = [](auto& s) -> auto& {
  return s.membership.gone;
};
constexpr auto kAcknowledged = [](auto& s) -> auto& {
  return s.membership.acknowledged;
};
constexpr auto kKills = [](auto& s) -> auto& {
  return s.kills;
};
constexpr auto kLeases = [](auto& s) -> auto& {
  return s.ledger.leases;
};
constexpr auto kEpochs = [](auto& s) -> auto& {
  return s.ledger.epochs;
};
constexpr auto kEntries = [](auto& s) -> auto& {
  return s.rounds.entries;
};
constexpr auto kAcks = [](auto& s) -> auto& {
  return s.rounds.acks;
};

constexpr auto kEvents = [](auto& s) -> auto& {
  return s.events.last;
};

constexpr auto kEventsBefore = [](const JobState& s) { return s.events.before; };
constexpr auto kGoneBefore = [](const JobState& s) { return s.membership.gone_before; };

/// The row of an epoch leaves out what is counted: it changes with every step.
constexpr RowKindInfo WithoutCounted(RowKindInfo info) {
  info.copy = [](const JobState& state, uint64_t number, JobState* piece) {
    const std::vector<EpochRecord>& from = state.ledger.epochs;
    if (number >= from.size()) {
      return false;
    }
    const EpochRecord& record = from[number];
    piece->ledger.epochs.push_back(
        {record.fresh, record.returned, RangeSet(), record.samples_returned});
    return true;
  };
  return info;
}

}  // namespace

const std::array<RowKindInfo, kRowKinds> kRowKindInfos = {{
    Once<kConfigPart>("job"),
    Once<kPlacementPart>("placement"),
    Once<kTotalsPart>("totals"),
    Once<kTimesPart>("times"),
    Places<kShardsPart, kShards, kFromZero>("shard"),
    Entries<kMembershipPart, kMembers>("member"),
    Entries<kMembershipPart, kDepartures>("departure"),
    Places<kMembershipPart, kGone, kGoneBefore>("gone"),
    Entries<kMembershipPart, kAcknowledged>("acknowledged"),
    kSeatRows,
    Entries<kKillsPart, kKills>("kill"),
    Entries<kLedgerPart, kLeases>("lease"),
    WithoutCounted(Places<kLedgerPart, kEpochs, kFromZero>("epoch")),
    kPartRows,
    kResultRows,
    Entries<kRoundsPart, kEntries>("entry"),
    kCommitRows,
    Entries<kRoundsPart, kAcks>("ack"),
    kPolicyRows,
    Places<kEventsPart, kEvents, kEventsBefore>("event"),
}};

}  // namespace ps::proto
