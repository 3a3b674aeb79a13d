// Files and replies that have secrets in them.

#include <string>
#include <string_view>
#include <vector>

#include "ps/aws/credentials.h"
#include "ps/aws/temporary_keys.h"
#include "ps/base/check.h"
#include "ps/base/text.h"
#include "ps/crypto/token_file.h"
#include "ps/http/http.h"
#include "tests/fuzz/targets.h"

namespace ps::fuzz {
namespace {

bool IsPrintableWord(std::string_view text) {
  return !text.empty() && Printable(text) == text && text.find(' ') == std::string_view::npos;
}

void CheckPrintableLine(const Status& status) {
  const std::string_view message = status.message();
  PS_CHECK(!message.empty() && Printable(message) == message) << message;
}

bool FuzzProfileFile(std::string_view text) {
  bool is_taken = false;
  for (const char* const section : {"default", "profile ml"}) {
    const aws::ProfileValues values = aws::ParseProfileSection(text, section);
    std::string again = std::string("[") + section + "]\n";
    for (const auto& [key, value] : values) {
      PS_CHECK(key.find('\n') == key.npos && value.find('\n') == value.npos) << key;
      PS_CHECK(!key.starts_with(' ') && !value.ends_with(' ')) << key;
      again += key + " = " + value + "\n";
    }
    PS_CHECK(aws::ParseProfileSection(again, section) == values) << again;
    is_taken = is_taken || !values.empty();
  }
  return is_taken;
}

bool CheckKeys(const Result<aws::Credentials>& keys) {
  if (!keys.ok()) {
    PS_CHECK(
        keys.status().code() == StatusCode::kUnavailable ||
        keys.status().code() == StatusCode::kNotFound)
        << keys.status();
    CheckPrintableLine(keys.status());
    return false;
  }
  PS_CHECK(IsPrintableWord(keys->key.id) && IsPrintableWord(keys->key.secret));
  PS_CHECK(keys->session_token.empty() || IsPrintableWord(keys->session_token));
  PS_CHECK(Printable(keys->source) == keys->source) << keys->source;
  HttpRequest request;
  aws::SignWith(*keys, &request);
  PS_CHECK(request.headers.size() == (keys->session_token.empty() ? 0U : 1U));
  return true;
}

/// Gives the replies in turn: a letter for the status, then the body.
class ScriptedHttp final : public HttpClient {
 public:
  explicit ScriptedHttp(std::string_view replies) : rest_(replies) {}

  Result<HttpReply> Do(const HttpRequest& request) override {
    PS_CHECK(Printable(request.url) == request.url) << request.url;
    for (const std::string& header : request.headers) {
      PS_CHECK(Printable(header) == header) << header;
    }
    const std::string_view text = rest_.substr(0, rest_.find('\0'));
    rest_.remove_prefix(std::min(text.size() + 1, rest_.size()));
    if (text.empty()) {
      return Status::Unavailable("no reply");
    }
    HttpReply reply;
    reply.status = text.front() == 'o' ? 200 : text.front() == 'n' ? 404 : 500;
    for (const char c : text.substr(1)) {
      reply.body.push_back(static_cast<std::byte>(c));
    }
    return reply;
  }

 private:
  std::string_view rest_;
};

bool FuzzRoles(std::string_view replies) {
  const Environment environment = [](const std::string& name) -> std::optional<std::string> {
    return name == "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI" ? std::optional<std::string>("/v2/id")
                                                            : std::nullopt;
  };
  ScriptedHttp instance(replies);
  ScriptedHttp container(replies);
  const bool is_instance = CheckKeys(aws::ReadInstanceRole(environment, instance));
  return CheckKeys(aws::ReadContainerRole(environment, container)) || is_instance;
}

}  // namespace

bool FuzzAwsKeys(std::span<const uint8_t> input) {
  if (input.empty()) {
    return false;
  }
  const std::string_view text = Text(input.subspan(1));
  switch (input.front() % 3) {
    case 0:
      return FuzzProfileFile(text);
    case 1:
      return CheckKeys(aws::ParseTemporaryKeys(text, "a command"));
    default:
      return FuzzRoles(text);
  }
}

bool FuzzTokenFile(std::span<const uint8_t> input) {
  const crypto::TokenFile file = crypto::ParseTokenFile(Text(input));
  PS_CHECK(file.token.find('\n') == std::string::npos) << file.token;
  const crypto::TokenFile again = crypto::ParseTokenFile(file.Text());
  PS_CHECK(again.token == file.token && again.pem == file.pem) << file.Text();
  const auto context = crypto::TlsOf(file, "file");
  if (!context.ok()) {
    PS_CHECK(context.status().code() == StatusCode::kInvalidArgument) << context.status();
    CheckPrintableLine(context.status());
    return false;
  }
  PS_CHECK((*context == nullptr) == file.pem.empty()) << "encrypted, or not";
  return !file.token.empty();
}

}  // namespace ps::fuzz
