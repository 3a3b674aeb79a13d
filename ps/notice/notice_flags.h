#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ps/notice/notice_watcher.h"
#include "ps/process/flags.h"

namespace ps::notice {

/// Who may say that this machine is taken back, as ps_server and ps_worker are told.
struct NoticeOptions {
  std::string file;  // empty: none
  proto::NoticeService service = proto::NoticeService::kNone;
  std::string url;                                                       // as NoticeSettings::url
  Duration term_grace = std::chrono::seconds(proto::kTermGraceSeconds);  // what SIGTERM leaves
};

std::vector<ManualFlag> NoticeFlags();
/// Errors: kInvalidArgument.
Result<NoticeOptions> ReadNoticeFlags(const Flags& flags);

/// One for each of the file and the service that there is. `log` outlives them.
std::vector<std::unique_ptr<NoticeWatcher>> WatchAll(
    const NoticeOptions& options, const NoticeWatcher::Callbacks& callbacks, const Logger* log);

}  // namespace ps::notice
