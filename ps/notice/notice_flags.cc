#include "ps/notice/notice_flags.h"

#include <fmt/core.h>

#include <algorithm>

#include "ps/base/text.h"

namespace ps::notice {
std::vector<ManualFlag> NoticeFlags() {
  return {
      {"--notice-file",
       "FILE",
       "Leaves when this file appears, within the seconds that are written in it."},
      {"--notices",
       "WHO",
       "Asks whether the provider takes this machine back: ec2, gcp or azure. Default: none."},
      {"--metadata-url",
       "URL",
       "Where --notices asks. Default: the provider's address inside a machine."},
      {"--term-grace-s",
       "N",
       fmt::format(
           "Seconds from SIGTERM to the end of the machine. Default: {}.",
           proto::kTermGraceSeconds)}};
}

Result<NoticeOptions> ReadNoticeFlags(const Flags& flags) {
  NoticeOptions options;
  options.file = flags.TextOr("notice-file", "");
  options.url = flags.TextOr("metadata-url", "");
  if (flags.Has("notices")) {
    const std::string name = flags.TextOr("notices", "");
    const auto& names = proto::kNoticeServiceNames;
    const auto* const it = std::find(names.begin(), names.end(), name);
    if (it == names.end()) {
      return Status::InvalidArgument(
          fmt::format("--notices is '{}'; allowed: none, ec2, gcp, azure", Printable(name)));
    }
    options.service = static_cast<proto::NoticeService>(it - names.begin());
  }
  if (flags.Has("term-grace-s")) {
    PS_ASSIGN(const uint64_t grace_s, flags.Number("term-grace-s", 0, proto::kTermGraceSecondsMax));
    options.term_grace = std::chrono::seconds(grace_s);
  }
  return options;
}

std::vector<std::unique_ptr<NoticeWatcher>> WatchAll(
    const NoticeOptions& options, const NoticeWatcher::Callbacks& callbacks, const Logger* log) {
  std::vector<std::unique_ptr<NoticeWatcher>> watchers;
  NoticeWatcher::Options watched;
  if (!options.file.empty()) {
    watched.file = options.file;
    watchers.push_back(std::make_unique<NoticeWatcher>(watched, callbacks, log));
  }
  if (options.service != proto::NoticeService::kNone) {
    watched.file.clear();
    watched.service = options.service;
    watched.url = options.url;
    watchers.push_back(std::make_unique<NoticeWatcher>(watched, callbacks, log));
  }
  return watchers;
}

}  // namespace ps::notice
