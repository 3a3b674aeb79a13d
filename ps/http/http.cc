#include "ps/http/http.h"

#include <curl/curl.h>
#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include "ps/base/check.h"

namespace ps {
namespace {

/// libcurl's global state, for the life of the process.
void Initialize() {
  static const CURLcode initialized = ::curl_global_init(CURL_GLOBAL_DEFAULT);
  PS_CHECK(initialized == CURLE_OK) << ::curl_easy_strerror(initialized);
}

/// Where a reply goes.
struct Sink {
  HttpReply reply;
  size_t bytes_max = 0;
  bool is_too_large = false;
  CURL* curl = nullptr;
  const std::function<void(std::string_view)>* on_data = nullptr;
};

size_t OnBody(char* data, size_t /*one*/, size_t size, void* context) {
  auto* const sink = static_cast<Sink*>(context);
  if (*sink->on_data != nullptr) {
    long status = 0;
    ::curl_easy_getinfo(sink->curl, CURLINFO_RESPONSE_CODE, &status);
    if (status == 200) {
      (*sink->on_data)({data, size});
      return size;
    }
  }
  if (size > sink->bytes_max - std::min(sink->bytes_max, sink->reply.body.size())) {
    sink->is_too_large = true;
    return 0;  // ends the transfer
  }
  const auto* const bytes = reinterpret_cast<const std::byte*>(data);
  sink->reply.body.insert(sink->reply.body.end(), bytes, bytes + size);
  return size;
}

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlanks);
  return begin == std::string_view::npos
             ? std::string_view()
             : text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

size_t OnHeader(char* data, size_t /*one*/, size_t size, void* context) {
  constexpr size_t kHeadersMax = 100;
  auto* const sink = static_cast<Sink*>(context);
  const std::string_view line(data, size);
  const size_t colon = line.find(':');
  if (colon != std::string_view::npos && sink->reply.headers.size() < kHeadersMax) {
    std::string name(line.substr(0, colon));
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) {
      return static_cast<char>(std::tolower(c));
    });
    sink->reply.headers[name] = std::string(Trim(line.substr(colon + 1)));
  }
  return size;
}

int OnProgress(void* context, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  const auto* const is_cancelled = static_cast<const IsCancelled*>(context);
  return *is_cancelled != nullptr && (*is_cancelled)() ? 1 : 0;
}

struct FreeHeaders {
  void operator()(curl_slist* list) const { ::curl_slist_free_all(list); }
};

struct FreeHandle {
  void operator()(CURL* curl) const { ::curl_easy_cleanup(curl); }
};

long Milliseconds(Duration duration) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
}

class CurlClient final : public HttpClient {
 public:
  CurlClient(const HttpLimits& limits, IsCancelled is_cancelled)
      : limits_(limits), is_cancelled_(std::move(is_cancelled)) {
    Initialize();
    curl_.reset(::curl_easy_init());
    PS_CHECK(curl_ != nullptr) << "no memory for an HTTP client";
  }

  Result<HttpReply> Do(const HttpRequest& request) override {
    ::curl_easy_reset(curl_.get());  // options alone: connections stay
    std::unique_ptr<curl_slist, FreeHeaders> headers;
    for (const std::string& header : request.headers) {
      curl_slist* const longer = ::curl_slist_append(headers.get(), header.c_str());
      PS_CHECK(longer != nullptr) << "no memory for a header";
      headers.release();
      headers.reset(longer);
    }
    Sink sink;
    sink.bytes_max = request.reply_bytes_max;
    sink.curl = curl_.get();
    sink.on_data = &request.on_data;
    SetLimits();
    Set(CURLOPT_URL, request.url.c_str());
    Set(CURLOPT_PATH_AS_IS, 1L);
    Set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
    Set(CURLOPT_HTTPHEADER, headers.get());
    if (request.method == "PUT" || request.method == "POST" || !request.body.empty()) {
      Set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
      Set(CURLOPT_POSTFIELDS,
          request.body.empty() ? "" : reinterpret_cast<const char*>(request.body.data()));
    }
    if (request.is_direct) {
      Set(CURLOPT_NOPROXY, "*");
    }
    if (!request.unix_socket.empty()) {
      Set(CURLOPT_UNIX_SOCKET_PATH, request.unix_socket.c_str());
    }
    if (request.key) {
      const std::string scope = "aws:amz:" + request.key->region + ":" + request.key->service;
      Set(CURLOPT_AWS_SIGV4, scope.c_str());
      Set(CURLOPT_USERNAME, request.key->id.c_str());
      Set(CURLOPT_PASSWORD, request.key->secret.c_str());
    }
    Set(CURLOPT_WRITEFUNCTION, &OnBody);
    Set(CURLOPT_WRITEDATA, &sink);
    Set(CURLOPT_HEADERFUNCTION, &OnHeader);
    Set(CURLOPT_HEADERDATA, &sink);
    std::string error(CURL_ERROR_SIZE, '\0');
    Set(CURLOPT_ERRORBUFFER, error.data());
    const CURLcode code = ::curl_easy_perform(curl_.get());
    error.resize(error.find('\0'));
    if (code != CURLE_OK) {
      return Failure(code, error, sink);
    }
    long status = 0;
    ::curl_easy_getinfo(curl_.get(), CURLINFO_RESPONSE_CODE, &status);
    sink.reply.status = static_cast<int>(status);
    return std::move(sink.reply);
  }

 private:
  template <typename Value>
  void Set(CURLoption option, Value value) {
    const CURLcode code = ::curl_easy_setopt(curl_.get(), option, value);
    PS_CHECK(code == CURLE_OK) << "option " << option << ": " << ::curl_easy_strerror(code);
  }

  void SetLimits() {
    Set(CURLOPT_NOSIGNAL, 1L);
    Set(CURLOPT_PROTOCOLS_STR, "http,https");
    Set(CURLOPT_CONNECTTIMEOUT_MS, Milliseconds(limits_.connect));
    Set(CURLOPT_TIMEOUT_MS, Milliseconds(limits_.total));
    Set(CURLOPT_LOW_SPEED_LIMIT, static_cast<long>(limits_.bytes_per_s_min));
    Set(CURLOPT_LOW_SPEED_TIME, std::max(1L, Milliseconds(limits_.slow_time) / 1000));
    Set(CURLOPT_NOPROGRESS, 0L);
    Set(CURLOPT_XFERINFOFUNCTION, &OnProgress);
    Set(CURLOPT_XFERINFODATA, &is_cancelled_);
  }

  Status Failure(CURLcode code, const std::string& error, const Sink& sink) const {
    const std::string text = error.empty() ? ::curl_easy_strerror(code) : error;
    switch (code) {
      case CURLE_ABORTED_BY_CALLBACK:
        return Status::Cancelled("cancelled");
      case CURLE_WRITE_ERROR:
        if (sink.is_too_large) {
          return Status::Corruption(
              fmt::format("the reply has more than {} bytes", sink.bytes_max));
        }
        return Status::Unavailable(text);
      case CURLE_OPERATION_TIMEDOUT:
        return Status::DeadlineExceeded(text);
      case CURLE_URL_MALFORMAT:
      case CURLE_UNSUPPORTED_PROTOCOL:
      case CURLE_PEER_FAILED_VERIFICATION:
      case CURLE_SSL_CACERT_BADFILE:
        return Status::InvalidArgument(text);
      default:
        return Status::Unavailable(text);
    }
  }

  const HttpLimits limits_;
  IsCancelled is_cancelled_;
  std::unique_ptr<CURL, FreeHandle> curl_;
};

}  // namespace

std::unique_ptr<HttpClient> MakeHttpClient(const HttpLimits& limits, IsCancelled is_cancelled) {
  return std::make_unique<CurlClient>(limits, std::move(is_cancelled));
}

}  // namespace ps
