#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "flatbuffers/flatbuffers.h"
#include "messages_generated.h"
#include "ps/proto/limits.h"
#include "ps/proto/messages.h"

// Private to the codec: how one message turns into its table and back. Every message T has an
// overload `Offset<wire::T> Encode(Fbb&, const T&)` and `void Decode(Decoder&, const wire::T&,
// T*)`.

namespace ps::proto::codec {

using Fbb = flatbuffers::FlatBufferBuilder;
template <typename W>
using Offset = flatbuffers::Offset<W>;
template <typename W>
using StructVector = flatbuffers::Vector<const W*>;
template <typename W>
using TableVector = flatbuffers::Vector<Offset<W>>;

/// Reads a verified FlatBuffer, whose values may still be wrong, and keeps the first error. A
/// hostile buffer can point at the same string or vector many times. Our encoder never does, so the
/// values read may not need more memory than the frame has bytes: Charge enforces it.
class Decoder {
 public:
  explicit Decoder(size_t buffer_bytes) : budget_(buffer_bytes) {}

  const Status& status() const { return status_; }

  void Fail(const std::string& why) {
    if (status_.ok()) {
      status_ = Status::InvalidArgument(why);
    }
  }

  std::string Text(const flatbuffers::String* text, size_t bytes_max, const char* field);
  bool Charge(size_t bytes, const char* field);

  /// The C++ enum of the same values; the caller's type says which.
  template <typename E, typename W>
  E Enum(W value, const char* field) {
    if (value < W::MIN || value > W::MAX) {
      Fail(fmt::format("{} has unknown value {}", field, static_cast<int>(value)));
      return E{};
    }
    return static_cast<E>(value);
  }

  template <typename W>
  bool Present(const W* part, const char* field) {
    if (part == nullptr) {
      Fail(std::string(field) + " is missing");
    }
    return part != nullptr;
  }

  template <typename W, typename V, typename F>
  void Structs(const StructVector<W>* in, const char* field, std::vector<V>* out, F read) {
    if (in == nullptr || !Takes<W>(in->Data(), in->size(), field)) {
      return;
    }
    const W* items = reinterpret_cast<const W*>(in->Data());
    out->reserve(in->size());
    for (size_t i = 0; i < in->size(); ++i) {
      out->push_back(read(items[i]));
    }
  }

  template <typename T>
  void Scalars(const flatbuffers::Vector<T>* in, const char* field, std::vector<T>* out) {
    if (in == nullptr || !Takes<T>(in->Data(), in->size(), field)) {
      return;
    }
    out->reserve(in->size());
    for (flatbuffers::uoffset_t i = 0; i < in->size(); ++i) {
      out->push_back(in->Get(i));
    }
  }

  template <typename W, typename V>
  void Tables(const TableVector<W>* in, const char* field, std::vector<V>* out) {
    if (in == nullptr || !Charge(in->size() * sizeof(Offset<W>), field)) {
      return;
    }
    for (flatbuffers::uoffset_t i = 0; i < in->size() && status_.ok(); ++i) {
      Decode(*this, *in->Get(i), &out->emplace_back());
    }
  }

 private:
  /// FlatBuffers reads elements in place, and its verifier does not look at their alignment.
  template <typename W>
  bool Takes(const uint8_t* items, size_t count, const char* field) {
    if (!Charge(count * sizeof(W), field)) {
      return false;
    }
    if (count > 0 && reinterpret_cast<uintptr_t>(items) % alignof(W) != 0) {
      Fail(std::string(field) + " is misaligned");
      return false;
    }
    return true;
  }

  size_t budget_;
  Status status_;
};

template <typename W, typename V, typename F>
Offset<StructVector<W>> MakeStructs(Fbb& b, const std::vector<V>& in, F make) {
  return b.CreateVectorOfStructs<W>(in.size(), [&](size_t i, W* out) { *out = make(in[i]); });
}

template <typename W, typename E>
W EnumTo(E value) {
  static_assert(std::is_same_v<std::underlying_type_t<W>, uint8_t>);
  return static_cast<W>(value);
}

/// At most `bytes_max` of the text, which the peer would refuse otherwise; cut between two
/// characters, with "..." at the end.
Offset<flatbuffers::String> MakeText(Fbb& b, const std::string& text, size_t bytes_max);

// Parts that several messages share.
Offset<wire::Placement> Encode(Fbb& b, const Placement& m);
void Decode(Decoder& d, const wire::Placement& w, Placement* m);
Offset<wire::Wait> Encode(Fbb& b, const Wait& m);
void Decode(Decoder& d, const wire::Wait& w, Wait* m);
Offset<wire::ShardStats> Encode(Fbb& b, const ShardStats& m);
void Decode(Decoder& d, const wire::ShardStats& w, ShardStats* m);
wire::WorkerStats EncodeStats(const WorkerStats& m);
wire::DatasetFingerprint EncodeData(const DatasetFingerprint& m);
DatasetFingerprint DecodeData(const wire::DatasetFingerprint& w);
/// A struct of the wire never grows: a later addition is a field of the table around it.
WorkerStats DecodeStats(const wire::WorkerStats& w, uint64_t steps_late);
Offset<wire::JobStatus> Encode(Fbb& b, const JobStatus& m);
void Decode(Decoder& d, const wire::JobStatus& w, JobStatus* m);
Offset<wire::TensorSpec> Encode(Fbb& b, const TensorSpec& m);
void Decode(Decoder& d, const wire::TensorSpec& w, TensorSpec* m);
Offset<wire::ShardAddress> Encode(Fbb& b, const ShardAddress& m);
void Decode(Decoder& d, const wire::ShardAddress& w, ShardAddress* m);
Offset<wire::WorkerRow> Encode(Fbb& b, const WorkerRow& m);
void Decode(Decoder& d, const wire::WorkerRow& w, WorkerRow* m);
Offset<wire::ShardRow> Encode(Fbb& b, const ShardRow& m);
void Decode(Decoder& d, const wire::ShardRow& w, ShardRow* m);
Offset<StructVector<wire::CountedStep>> EncodeCounted(
    Fbb& b, const std::vector<CountedStep>& counted);
std::vector<CountedStep> DecodeCounted(
    Decoder& d, const StructVector<wire::CountedStep>* w, const char* field);
Offset<wire::CheckpointStatus> Encode(Fbb& b, const CheckpointStatus& m);
Offset<wire::ShardAddress> Encode(Fbb& b, const ShardAddress& m);
void Decode(Decoder& d, const wire::ShardAddress& w, ShardAddress* m);
Offset<wire::OfferedChunk> Encode(Fbb& b, const OfferedChunk& m);
void Decode(Decoder& d, const wire::OfferedChunk& w, OfferedChunk* m);
Offset<wire::StagedStep> Encode(Fbb& b, const StagedStep& m);
void Decode(Decoder& d, const wire::StagedStep& w, StagedStep* m);
Offset<wire::JournalStatus> Encode(Fbb& b, const JournalStatus& m);
void Decode(Decoder& d, const wire::CheckpointStatus& w, CheckpointStatus* m);
void Decode(Decoder& d, const wire::JournalStatus& w, JournalStatus* m);
Offset<wire::CopyStatus> Encode(Fbb& b, const CopyStatus& m);
void Decode(Decoder& d, const wire::CopyStatus& w, CopyStatus* m);
Offset<wire::PinnedPart> Encode(Fbb& b, const PinnedPart& m);
void Decode(Decoder& d, const wire::PinnedPart& w, PinnedPart* m);
Offset<wire::ServersStatus> Encode(Fbb& b, const ServersStatus& m);
void Decode(Decoder& d, const wire::ServersStatus& w, ServersStatus* m);
Offset<wire::EventRow> Encode(Fbb& b, const EventRow& m);
void Decode(Decoder& d, const wire::EventRow& w, EventRow* m);
Offset<wire::FleetRow> Encode(Fbb& b, const FleetRow& m);
Offset<wire::ScaleChange> Encode(Fbb& b, const ScaleChange& m);
void Decode(Decoder& d, const wire::FleetRow& w, FleetRow* m);
void Decode(Decoder& d, const wire::ScaleChange& w, ScaleChange* m);

/// Ids of 64 bits.
template <typename I>
Offset<flatbuffers::Vector<uint64_t>> EncodeIds(Fbb& b, const std::vector<I>& in) {
  std::vector<uint64_t> values;
  values.reserve(in.size());
  for (const I id : in) {
    values.push_back(id.value);
  }
  return b.CreateVector(values);
}

template <typename I>
void DecodeIds(
    Decoder& d, const flatbuffers::Vector<uint64_t>* in, const char* field, std::vector<I>* out) {
  std::vector<uint64_t> values;
  d.Scalars(in, field, &values);
  out->reserve(values.size());
  for (const uint64_t value : values) {
    out->push_back(I(value));
  }
}

/// Of the first `count_max`.
template <typename V>
auto MakeTables(Fbb& b, const std::vector<V>& in, size_t count_max = SIZE_MAX) {
  std::vector<decltype(Encode(b, in.front()))> offsets;
  offsets.reserve(std::min(in.size(), count_max));
  for (size_t i = 0; i < in.size() && i < count_max; ++i) {
    offsets.push_back(Encode(b, in[i]));
  }
  return b.CreateVector(offsets);
}

// codec_control.cc
Offset<wire::Hello> Encode(Fbb& b, const Hello& m);
Offset<wire::HelloReply> Encode(Fbb& b, const HelloReply& m);
Offset<wire::Refusal> Encode(Fbb& b, const Refusal& m);
Offset<wire::StatusRequest> Encode(Fbb& b, const StatusRequest& m);
Offset<wire::StatusReply> Encode(Fbb& b, const StatusReply& m);
Offset<wire::StopRequest> Encode(Fbb& b, const StopRequest& m);
Offset<wire::StopReply> Encode(Fbb& b, const StopReply& m);
Offset<wire::RestoreFailed> Encode(Fbb& b, const RestoreFailed& m);
void Decode(Decoder& d, const wire::Hello& w, Hello* m);
void Decode(Decoder& d, const wire::HelloReply& w, HelloReply* m);
void Decode(Decoder& d, const wire::Refusal& w, Refusal* m);
void Decode(Decoder& d, const wire::StatusRequest& w, StatusRequest* m);
void Decode(Decoder& d, const wire::StatusReply& w, StatusReply* m);
void Decode(Decoder& d, const wire::StopRequest& w, StopRequest* m);
void Decode(Decoder& d, const wire::StopReply& w, StopReply* m);
void Decode(Decoder& d, const wire::RestoreFailed& w, RestoreFailed* m);

// codec_fleet.cc
Offset<wire::NoticeRequest> Encode(Fbb& b, const NoticeRequest& m);
Offset<wire::NoticeReply> Encode(Fbb& b, const NoticeReply& m);
Offset<wire::ServerNotice> Encode(Fbb& b, const ServerNotice& m);
Offset<wire::ScaleRequest> Encode(Fbb& b, const ScaleRequest& m);
Offset<wire::ScaleReply> Encode(Fbb& b, const ScaleReply& m);
Offset<wire::PauseRequest> Encode(Fbb& b, const PauseRequest& m);
Offset<wire::PauseReply> Encode(Fbb& b, const PauseReply& m);
Offset<wire::ModesStatus> Encode(Fbb& b, const ModesStatus& m);
Offset<wire::ModeRequest> Encode(Fbb& b, const ModeRequest& m);
Offset<wire::ModeReply> Encode(Fbb& b, const ModeReply& m);
wire::ModeChoice EncodeMode(const ModeChoice& m);
Offset<StructVector<wire::ModeSwitch>> EncodeSwitches(
    Fbb& b, const std::vector<ModeSwitch>& switches);
void Decode(Decoder& d, const wire::NoticeRequest& w, NoticeRequest* m);
void Decode(Decoder& d, const wire::NoticeReply& w, NoticeReply* m);
void Decode(Decoder& d, const wire::ServerNotice& w, ServerNotice* m);
void Decode(Decoder& d, const wire::ScaleRequest& w, ScaleRequest* m);
void Decode(Decoder& d, const wire::ScaleReply& w, ScaleReply* m);
void Decode(Decoder& d, const wire::PauseRequest& w, PauseRequest* m);
void Decode(Decoder& d, const wire::PauseReply& w, PauseReply* m);
void Decode(Decoder& d, const wire::ModesStatus& w, ModesStatus* m);
void Decode(Decoder& d, const wire::ModeRequest& w, ModeRequest* m);
void Decode(Decoder& d, const wire::ModeReply& w, ModeReply* m);
ModeChoice DecodeMode(Decoder& d, const wire::ModeChoice* w, const char* field);
void DecodeSwitches(
    Decoder& d, const StructVector<wire::ModeSwitch>* w, std::vector<ModeSwitch>* switches);

// codec_move.cc
Offset<wire::GiveChunks> Encode(Fbb& b, const GiveChunks& m);
Offset<wire::ChunksGiven> Encode(Fbb& b, const ChunksGiven& m);
Offset<wire::ChunksOffer> Encode(Fbb& b, const ChunksOffer& m);
Offset<wire::ChunkPart> Encode(Fbb& b, const ChunkPart& m);
Offset<wire::ChunksTaken> Encode(Fbb& b, const ChunksTaken& m);
void Decode(Decoder& d, const wire::GiveChunks& w, GiveChunks* m);
void Decode(Decoder& d, const wire::ChunksGiven& w, ChunksGiven* m);
void Decode(Decoder& d, const wire::ChunksOffer& w, ChunksOffer* m);
void Decode(Decoder& d, const wire::ChunkPart& w, ChunkPart* m);
void Decode(Decoder& d, const wire::ChunksTaken& w, ChunksTaken* m);

// codec_shard.cc
Offset<wire::PushRequest> Encode(Fbb& b, const PushRequest& m);
Offset<wire::PushReply> Encode(Fbb& b, const PushReply& m);
Offset<wire::PullRequest> Encode(Fbb& b, const PullRequest& m);
Offset<wire::PullReply> Encode(Fbb& b, const PullReply& m);
Offset<wire::RegisterShard> Encode(Fbb& b, const RegisterShard& m);
Offset<wire::ShardSetup> Encode(Fbb& b, const ShardSetup& m);
Offset<wire::ShardReady> Encode(Fbb& b, const ShardReady& m);
Offset<wire::Membership> Encode(Fbb& b, const Membership& m);
Offset<wire::MembershipAck> Encode(Fbb& b, const MembershipAck& m);
Offset<wire::CommitRound> Encode(Fbb& b, const CommitRound& m);
Offset<wire::CommitAck> Encode(Fbb& b, const CommitAck& m);
Offset<wire::ShardHeartbeat> Encode(Fbb& b, const ShardHeartbeat& m);
void Decode(Decoder& d, const wire::PushRequest& w, PushRequest* m);
void Decode(Decoder& d, const wire::PushReply& w, PushReply* m);
void Decode(Decoder& d, const wire::PullRequest& w, PullRequest* m);
void Decode(Decoder& d, const wire::PullReply& w, PullReply* m);
void Decode(Decoder& d, const wire::RegisterShard& w, RegisterShard* m);
void Decode(Decoder& d, const wire::ShardSetup& w, ShardSetup* m);
void Decode(Decoder& d, const wire::ShardReady& w, ShardReady* m);
void Decode(Decoder& d, const wire::Membership& w, Membership* m);
void Decode(Decoder& d, const wire::MembershipAck& w, MembershipAck* m);
void Decode(Decoder& d, const wire::CommitRound& w, CommitRound* m);
void Decode(Decoder& d, const wire::CommitAck& w, CommitAck* m);
void Decode(Decoder& d, const wire::ShardHeartbeat& w, ShardHeartbeat* m);

// codec_worker.cc
Offset<wire::JoinRequest> Encode(Fbb& b, const JoinRequest& m);
Offset<wire::JoinReply> Encode(Fbb& b, const JoinReply& m);
Offset<wire::LeaseRequest> Encode(Fbb& b, const LeaseRequest& m);
Offset<wire::LeaseGrant> Encode(Fbb& b, const LeaseGrant& m);
Offset<wire::StepReport> Encode(Fbb& b, const StepReport& m);
Offset<wire::StepAck> Encode(Fbb& b, const StepAck& m);
Offset<wire::EvaluateReport> Encode(Fbb& b, const EvaluateReport& m);
Offset<wire::EvaluateAck> Encode(Fbb& b, const EvaluateAck& m);
Offset<wire::WorkerHeartbeat> Encode(Fbb& b, const WorkerHeartbeat& m);
Offset<wire::HeartbeatReply> Encode(Fbb& b, const HeartbeatReply& m);
Offset<wire::Goodbye> Encode(Fbb& b, const Goodbye& m);
Offset<wire::GoodbyeReply> Encode(Fbb& b, const GoodbyeReply& m);
Offset<wire::Drain> Encode(Fbb& b, const Drain& m);
Offset<wire::Shutdown> Encode(Fbb& b, const Shutdown& m);
void Decode(Decoder& d, const wire::JoinRequest& w, JoinRequest* m);
void Decode(Decoder& d, const wire::JoinReply& w, JoinReply* m);
void Decode(Decoder& d, const wire::LeaseRequest& w, LeaseRequest* m);
void Decode(Decoder& d, const wire::LeaseGrant& w, LeaseGrant* m);
void Decode(Decoder& d, const wire::StepReport& w, StepReport* m);
void Decode(Decoder& d, const wire::StepAck& w, StepAck* m);
void Decode(Decoder& d, const wire::EvaluateReport& w, EvaluateReport* m);
void Decode(Decoder& d, const wire::EvaluateAck& w, EvaluateAck* m);
void Decode(Decoder& d, const wire::WorkerHeartbeat& w, WorkerHeartbeat* m);
void Decode(Decoder& d, const wire::HeartbeatReply& w, HeartbeatReply* m);
void Decode(Decoder& d, const wire::Goodbye& w, Goodbye* m);
void Decode(Decoder& d, const wire::GoodbyeReply& w, GoodbyeReply* m);
void Decode(Decoder& d, const wire::Drain& w, Drain* m);
void Decode(Decoder& d, const wire::Shutdown& w, Shutdown* m);
Offset<wire::ShardAddresses> Encode(Fbb& b, const ShardAddresses& m);
void Decode(Decoder& d, const wire::ShardAddresses& w, ShardAddresses* m);

// codec_checkpoint.cc
Offset<wire::CheckpointRequest> Encode(Fbb& b, const CheckpointRequest& m);
Offset<wire::CheckpointReport> Encode(Fbb& b, const CheckpointReport& m);
void Decode(Decoder& d, const wire::CheckpointRequest& w, CheckpointRequest* m);
void Decode(Decoder& d, const wire::CheckpointReport& w, CheckpointReport* m);

}  // namespace ps::proto::codec
