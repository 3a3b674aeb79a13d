#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "ps/base/status.h"
#include "ps/base/time.h"
#include "ps/http/http.h"
#include "ps/proto/job/job_config.h"

namespace ps::notice {

/// What a provider says about this machine.
struct ProviderNotice {
  std::string what;        // for logs and summaries, as "EC2 spot interruption (terminate)"
  Duration grace{};        // from now until the machine goes
  bool is_advice = false;  // the machine may go some day: nobody has to leave
};

/// Whoever says that the machine is taken back: a provider's metadata service, a file, a signal.
/// Thread: any one at a time.
class NoticeSource {
 public:
  virtual ~NoticeSource() = default;

  virtual std::string_view name() const = 0;

  /// Asks once and waits for the answer, for as long as the source may need. Nothing: the machine
  /// stays. Errors, after which to ask again: those of HttpClient::Do; kUnavailable for an answer
  /// that says that it can't tell; kCorruption for an invalid one.
  virtual Result<std::optional<ProviderNotice>> Ask() = 0;

  /// What the last answer announced that Ask did not take as a notice of this machine, and why, in
  /// words that all machines have in common; empty: nothing.
  virtual std::string ignored() const { return ""; }

  /// The provider's name of this machine, for the log; empty: it does not matter.
  virtual std::string machine() const { return ""; }

  /// How long to wait before the next question.
  virtual Duration period() const = 0;

  /// Whether what it says may be withdrawn, so that an end in the distance is only watched.
  virtual bool may_withdraw() const { return true; }
};

struct NoticeSettings {
  std::string url;           // of the service; empty: the provider's own
  IsCancelled is_cancelled;  // asked once a second during a question
  // Longest wait for an answer, for tests. The request that switches a service on is not limited.
  Duration patience_max = std::chrono::hours(1);
  const TimeSource* time = &SystemTime();  // outlives the source
};

/// Requires: service is not kNone.
std::unique_ptr<NoticeSource> MakeNoticeSource(
    proto::NoticeService service, const NoticeSettings& settings);

std::unique_ptr<NoticeSource> MakeEc2Source(const NoticeSettings& settings);
std::unique_ptr<NoticeSource> MakeGcpSource(const NoticeSettings& settings);
std::unique_ptr<NoticeSource> MakeAzureSource(const NoticeSettings& settings);

}  // namespace ps::notice
