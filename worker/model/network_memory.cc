// The memory of a network's devices: what a minibatch needs, and what gives way when it is short.

#include <fmt/core.h>

#include <algorithm>

#include "ps/base/check.h"
#include "worker/model/network.h"

namespace ps::worker {

Status Network::ReserveSecondCopy() {
  PS_CHECK(has_copies());
  const Status status = OfAll([](Replica& replica) { return replica.ReserveSecondCopy(); });
  return status.code() == StatusCode::kInvalidArgument ? DropSecondCopy(status) : status;
}

Status Network::DropSecondCopy(const Status& why) {
  AddNote(fmt::format(
      "there is no memory for a second copy of the parameters, so they go to the device between "
      "steps instead of during them, which takes longer: {}",
      why.message()));
  return OfAll([](Replica& replica) { return replica.DropSecondCopy(); });
}

Status Network::MakeRoomFor(const Division& division, bool training) {
  size_t device = 0;
  Status status = ReserveAll(division, training, &device);
  while (status.code() == StatusCode::kInvalidArgument) {
    PS_ASSIGN(const bool has_more, GiveUpMemory(status));
    if (!has_more) {
      break;
    }
    PS_TRY(Release(division));
    status = ReserveAll(division, training, &device);
  }
  return status.code() == StatusCode::kInvalidArgument
             ? TooLarge(division, training, device, status)
             : status;
}

Result<bool> Network::GiveUpMemory(const Status& why) {
  if (has_second_copy()) {
    PS_TRY(DropSecondCopy(why));
    return true;
  }
  const bool gives_up = encoder_ && encoder_->GiveUp();
  if (gives_up) {
    NoteEncodingOnHost(why);
  }
  return gives_up;
}

void Network::NoteEncodingOnHost(const Status& why) {
  AddNote(fmt::format(
      "there is no memory for gradients in fewer bits on the device, so the CPU makes them, which "
      "takes longer: {}",
      why.message()));
}

void Network::AddNote(const std::string& note) {
  note_ += (note_.empty() ? "" : "; ") + note;
}

Status Network::ReserveAll(const Division& division, bool training, size_t* device) {
  PS_TRY(Reserve(division, division.piece, training, device));
  for (*device = 0; *device < division.devices(); ++*device) {
    const int64_t end = division.ShareOf(*device).end - division.ShareOf(*device).begin;
    for (int64_t offset = std::max<int64_t>((end - 1) / division.piece - 1, 0) * division.piece;
         offset < end;
         offset += division.piece) {
      const PieceRange range = division.RangeOf(*device, offset);
      if (range.end - range.begin < division.piece) {
        PS_TRY(replicas_[*device]->Reserve(range.end - range.begin, training, 1));
      }
    }
  }
  return Status::Ok();
}

Status Network::Reserve(const Division& division, int64_t piece, bool training, size_t* device) {
  const size_t pieces = training ? division.pieces() : 1;
  for (*device = 0; *device < division.devices(); ++*device) {
    PS_TRY(replicas_[*device]->Reserve(piece, training, pieces));
  }
  return Status::Ok();
}

Status Network::Release(const Division& division) {
  for (size_t i = 0; i < division.devices(); ++i) {
    PS_TRY(replicas_[i]->Release());
  }
  return Status::Ok();
}

Status Network::TooLarge(
    const Division& division, bool training, size_t device, const Status& why) {
  int64_t fits = 0;
  int64_t too_many = division.piece;
  while (too_many - fits > 1) {
    const int64_t middle = fits + (too_many - fits) / 2;
    PS_TRY(Release(division));
    size_t ignored = 0;
    (Reserve(division, middle, training, &ignored).ok() ? fits : too_many) = middle;
  }
  PS_TRY(Release(division));
  if (division.adds_pieces()) {
    return Status::InvalidArgument(fmt::format(
        "pieces of {}, as train.micro_batch says, do not fit into the memory of {}, {}: {}",
        division.piece,
        replicas_[device]->backend()->Name(),
        fits == 0 ? "nor does a single sample" : fmt::format("pieces of {} do", fits),
        why.message()));
  }
  return Status::InvalidArgument(fmt::format(
      "a minibatch of {} does not fit into the memory of {}, {}: {}",
      division.n,
      replicas_[device]->backend()->Name(),
      fits == 0 ? "a single sample does not"
                : fmt::format("one of {} does", fits * static_cast<int64_t>(division.devices())),
      why.message()));
}

}  // namespace ps::worker
