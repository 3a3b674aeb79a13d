#pragma once

#include <memory>
#include <string>
#include <vector>

#include "run/page/http_server.h"
#include "run/page/page_access.h"
#include "run/page/page_source.h"

namespace ps::run {

/// A run that a page shows.
struct PageRun {
  std::string id;  // its directory's name
  std::unique_ptr<PageSource> source;
};

/// What a page answers, for whatever it is asked. Thread: any, several at a time.
///   GET  /, /page.js, /page.css      the page, which has no figures and wants no key
///   GET  /healthz                    "ok", without a key
///   GET  /metrics                    as RenderPrometheus, of the first run
///   GET  /api/runs                   [{"run": ID}]
///   GET  /api/state?run=ID           the run now
///   GET  /api/history?run=ID&after=UNIX_S&thinned=N    HistoryToJson
///   GET  /api/events?run=ID&after=N
///   POST /api/control?run=ID         DoAsAsked
/// Without `run` it is the first one.
class PageRoutes {
 public:
  /// `software`: "spotps 1.0". Requires: there is a run.
  PageRoutes(std::vector<PageRun> runs, const std::string& key, std::string software);

  PageReply Answer(const PageRequest& request) const;

 private:
  PageReply AnswerApi(const PageRequest& request) const;
  PageReply Metrics() const;
  PageReply Runs() const;
  PageReply State(const PageRun& run) const;
  PageReply Events(const PageRun& run, const PageRequest& request) const;
  PageReply Control(const PageRun& run, const PageRequest& request) const;

  const std::vector<PageRun> runs_;
  const PageAccess access_;
  const std::string software_;
};

}  // namespace ps::run
