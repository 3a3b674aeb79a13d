#include "psctl/runs/remote_copies.h"

#include <fmt/core.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "checkpoint/remote/copies.h"
#include "checkpoint/remote/download.h"
#include "checkpoint/remote/index.h"
#include "checkpoint/remote/place.h"
#include "checkpoint/remote/upload.h"
#include "checkpoint/remote/writer_mark.h"
#include "ps/base/text.h"
#include "psctl/runs/checkpoint_source.h"
#include "run/directory/copies.h"
#include "run/directory/files.h"

namespace ps::psctl {
namespace {

using checkpoint::CheckpointId;
using store::ObjectStore;

/// With `says_incomplete` the copies that are not whole are told of and left out.
Result<CheckpointSource> SourceOf(
    ObjectStore& store, bool says_incomplete, const run::Console& console) {
  std::vector<CheckpointId> ids;
  if (says_incomplete) {
    PS_ASSIGN(checkpoint::CopyList list, checkpoint::ListWholeCopies(store));
    for (const checkpoint::IncompleteCopy& copy : list.incomplete) {
      console.err(fmt::format(
          "checkpoint {} is not whole in {}: {}\n",
          copy.id,
          Printable(store.name()),
          Printable(copy.why)));
    }
    ids = std::move(list.whole);
  } else {
    PS_ASSIGN(ids, checkpoint::ListCopies(store));
  }
  return CheckpointSource{
      store.name(),
      std::move(ids),
      [&store](CheckpointId id) { return checkpoint::ReadCopiedManifest(store, id); },
      [&store](CheckpointId id) { return checkpoint::VerifyCopy(store, id); }};
}

/// A copier that is at work keeps the pieces it has sent and not yet named in an index.
Result<std::vector<CheckpointId>> PruneBesideNobody(
    const CheckpointCommand& command, ObjectStore& store) {
  PS_ASSIGN(const std::optional<std::string> writer, checkpoint::ReadWriter(store));
  if (writer && !command.is_forced) {
    return Status::Unavailable(fmt::format(
        "another process copies to {} now, or was killed while it did ({}). A running job removes "
        "old copies by itself, as checkpoint.keep says. Wait until the copy is made; if that "
        "process is gone, add --force",
        store.name(),
        Printable(Clip(*writer, 200))));
  }
  checkpoint::WriterMark mark(&store, checkpoint::MakeWriterName());
  PS_TRY(mark.Take());
  auto removed = checkpoint::PruneCopies(store, command.keep, mark);
  mark.Leave();
  return removed;
}

int Prune(const CheckpointCommand& command, ObjectStore& store, const run::Console& console) {
  const auto removed = PruneBesideNobody(command, store);
  const auto kept = checkpoint::ListCopies(store);
  if (!removed.ok() || !kept.ok()) {
    return run::Fail(console, removed.ok() ? kept.status() : removed.status());
  }
  console.out(fmt::format("removed: {}\nkept: {}\n", NumbersText(*removed), NumbersText(*kept)));
  return run::kExitOk;
}

}  // namespace

int CopyToObjects(const std::string& path, const std::string& place, const run::Console& console) {
  const auto store = run::OpenCopies(place);
  if (!store.ok()) {
    return run::Misuse(console, store.status());
  }
  checkpoint::Uploader uploader(
      run::AbsolutePath(path),
      store->get(),
      {.writer = checkpoint::MakeWriterName(),
       .keep = 0,
       .on_progress = BytesProgress(console, "copying")});
  const auto report = uploader.Run();
  if (!report.ok()) {
    return run::Fail(console, report.status());
  }
  console.out(fmt::format(
      "copied: {}, {} sent, {} shared\nthere already: {}\n",
      NumbersText(report->copied),
      FormatBytes(report->sent_bytes),
      FormatBytes(report->shared_bytes),
      NumbersText(report->present)));
  return run::kExitOk;
}

int RunOnObjects(const CheckpointCommand& command, const run::Console& console) {
  using Action = CheckpointCommand::Action;
  const auto store = run::OpenCopies(command.where);
  if (!store.ok()) {
    return run::Misuse(console, store.status());
  }
  const auto look = [&](auto look_at) {
    const Result<CheckpointSource> source =
        SourceOf(**store, command.action == Action::kList, console);
    return source.ok() ? look_at(command, *source, console) : run::Fail(console, source.status());
  };
  switch (command.action) {
    case Action::kList:
      return look(ListCheckpoints);
    case Action::kShow:
      return look(ShowCheckpoint);
    case Action::kVerify:
      return look(VerifyCheckpoints);
    case Action::kPrune:
      return Prune(command, **store, console);
    case Action::kCopy:
      if (!checkpoint::IsObjectStore(command.target)) {
        const Status fetched =
            run::FetchNewest(**store, command.where, run::AbsolutePath(command.target), console);
        return fetched.ok() ? run::kExitOk : run::Fail(console, fetched);
      }
      break;
    default:
      break;
  }
  return run::Misuse(
      console,
      Status::InvalidArgument(fmt::format(
          "this needs the checkpoint on this machine: psctl checkpoint copy DIR {} fetches it",
          Printable(command.where))));
}

}  // namespace ps::psctl
