#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "ps/base/status.h"
#include "ps/base/time.h"
#include "ps/coordinator/coordinator_host.h"
#include "ps/proto/files/plan.h"
#include "run/directory/run_directory.h"
#include "run/page/http_server.h"
#include "run/page/page_board.h"

namespace ps::run {

/// The page of the run of this process, from its first to its last moment. Nothing that happens to
/// it harms the run. Thread: the coordinator's, on which its buttons' orders are carried out.
class StatusPage {
 public:
  struct Options {
    std::string address;  // run.page, not "off"
    RunPaths paths;
    std::string software;             // "spotps 1.0"
    std::optional<proto::Plan> plan;  // that is run
    bool is_recovered = false;        // the run goes on: with the key and the port that it had
  };

  /// Serves, and leaves link and key in the run directory. `host` outlives it. Errors: those of
  /// HttpServer, kIo with the path.
  static Result<std::unique_ptr<StatusPage>> Start(
      const Options& options, coordinator::CoordinatorHost* host);

  StatusPage(const StatusPage&) = delete;
  StatusPage& operator=(const StatusPage&) = delete;
  /// Takes link and key away.
  ~StatusPage();

  const std::string& link() const { return link_; }

  /// Begins to show the host's run. Within its loop, or before.
  void Show();

  /// The host's loop has ended: what the run has come to is shown until the page goes, and orders
  /// are refused.
  void Freeze();

  PageBoard& board() { return *board_; }

 private:
  class Calls;

  StatusPage(const Options& options, coordinator::CoordinatorHost* host);

  coordinator::CoordinatorHost* const host_;
  const RunPaths paths_;
  const std::shared_ptr<Calls> calls_;
  PageBoard* board_ = nullptr;  // the server's
  std::string link_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace ps::run
