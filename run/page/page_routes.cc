#include "run/page/page_routes.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "ps/base/text.h"
#include "ps/json/json_writer.h"
#include "run/directory/event_log.h"
#include "run/page/history.h"
#include "run/page/page_files.h"
#include "run/page/prometheus.h"

namespace ps::run {
namespace {

PageReply Problem(int status, std::string_view what) {
  JsonWriter json(JsonForm::kOneLine);
  json.BeginObject();
  json.Field("error", what);
  json.EndObject();
  PageReply reply = PageReply::Json(std::move(json).Take());
  reply.status = status;
  return reply;
}

int StatusOf(StatusCode code) {
  switch (code) {
    case StatusCode::kNotFound:
      return 404;
    case StatusCode::kDeadlineExceeded:
      return 504;
    case StatusCode::kUnavailable:
    case StatusCode::kOverloaded:
      return 503;
    default:
      return 400;
  }
}

/// `otherwise` where it is not there, or no number.
template <typename Number>
Number QueryNumber(const PageRequest& request, const char* name, Number otherwise) {
  const auto it = request.query.find(name);
  Number number{};
  if (it == request.query.end()) {
    return otherwise;
  }
  const char* const end = it->second.data() + it->second.size();
  const auto [parsed_to, error] = std::from_chars(it->second.data(), end, number);
  return error == std::errc() && parsed_to == end ? number : otherwise;
}

}  // namespace

PageRoutes::PageRoutes(std::vector<PageRun> runs, const std::string& key, std::string software)
    : runs_(std::move(runs)), access_(key), software_(std::move(software)) {}

PageReply PageRoutes::Answer(const PageRequest& request) const {
  const PageFile* const file =
      std::ranges::find(kPageFiles, std::string_view(request.path), &PageFile::path);
  const bool is_file = file != std::end(kPageFiles);
  const bool is_open = is_file || request.path == "/healthz";
  if (const PageAccess::Refusal refusal = access_.Check(request, !is_open); refusal.status != 0) {
    return PageReply::Text(refusal.status, refusal.text);
  }
  const bool is_post = request.method == "POST";
  if (is_post != (request.path == "/api/control")) {
    return Problem(405, is_post ? "this is read with GET" : "this is asked for with POST");
  }
  if (is_file) {
    PageReply reply = PageReply::Text(200, file->text);
    reply.type = file->type;
    return reply;
  }
  if (request.path == "/healthz") {
    return PageReply::Text(200, "ok\n");
  }
  if (request.path == "/metrics") {
    return Metrics();
  }
  return AnswerApi(request);
}

PageReply PageRoutes::AnswerApi(const PageRequest& request) const {
  if (request.path == "/api/runs") {
    return Runs();
  }
  const auto id = request.query.find("run");
  const auto run = id == request.query.end() ? runs_.begin()
                                             : std::ranges::find(runs_, id->second, &PageRun::id);
  if (run == runs_.end()) {
    return Problem(404, "this page has no such run");
  }
  if (request.path == "/api/state") {
    return State(*run);
  }
  if (request.path == "/api/history") {
    return PageReply::Json(run->source->History(
        QueryNumber(request, "after", 0.0), QueryNumber(request, "thinned", uint32_t{0})));
  }
  if (request.path == "/api/events") {
    return Events(*run, request);
  }
  if (request.path == "/api/control") {
    return Control(*run, request);
  }
  return Problem(404, "there is nothing at this path");
}

PageReply PageRoutes::Metrics() const {
  const PageSource::Now now = runs_.front().source->Look();
  if (now.look == nullptr) {
    return PageReply::Text(503, "the coordinator has not answered yet\n");
  }
  const std::string text = RenderPrometheus(now.look->status(), software_, now.age_s);
  PageReply reply = PageReply::Text(200, text);
  reply.type = "text/plain; version=0.0.4; charset=utf-8";
  return reply;
}

PageReply PageRoutes::Runs() const {
  JsonWriter json(JsonForm::kOneLine);
  json.BeginList();
  for (const PageRun& run : runs_) {
    json.BeginObject();
    json.Field("run", run.id);
    json.EndObject();
  }
  json.EndList();
  return PageReply::Json(std::move(json).Take());
}

PageReply PageRoutes::State(const PageRun& run) const {
  const PageSource::Now now = run.source->Look();
  if (now.look == nullptr) {
    return Problem(503, "the coordinator has not answered yet");
  }
  JsonWriter json(JsonForm::kOneLine);
  json.BeginObject();
  json.Field("age_s", now.age_s);
  json.Field("can_steer", run.source->steering() != nullptr);
  json.Field("software", software_);
  json.Key("run");
  json.Raw(now.look->json());
  json.EndObject();
  return PageReply::Json(std::move(json).Take());
}

PageReply PageRoutes::Events(const PageRun& run, const PageRequest& request) const {
  JsonWriter json(JsonForm::kOneLine);
  json.BeginList();
  for (const proto::EventRow& event :
       run.source->EventsAfter(QueryNumber(request, "after", uint64_t{0}))) {
    json.Raw(EventToJson(event));
  }
  json.EndList();
  return PageReply::Json(std::move(json).Take());
}

PageReply PageRoutes::Control(const PageRun& run, const PageRequest& request) const {
  const PageSteering* const steering = run.source->steering();
  if (steering == nullptr) {
    return Problem(409, "this page shows what the run has left, and steers nothing");
  }
  // Forms of other pages can send other types without asking first.
  if (!request.content_type.starts_with("application/json")) {
    return Problem(415, "send Content-Type: application/json");
  }
  const Result<std::string> said = DoAsAsked(request.body, *steering);
  if (!said.ok()) {
    return Problem(StatusOf(said.status().code()), said.status().message());
  }
  JsonWriter json(JsonForm::kOneLine);
  json.BeginObject();
  json.Field("said", *said);
  json.EndObject();
  return PageReply::Json(std::move(json).Take());
}

}  // namespace ps::run
