#pragma once

#include <string>
#include <string_view>

#include "ps/base/status.h"
#include "run/page/http_server.h"

namespace ps::run {

/// Who may see a page and press its buttons: whoever has the key. It stands in the link's fragment,
/// which browsers send to nobody, and comes back in the header Authorization, which a page of
/// somebody else can't make a browser send. Thread: any.
class PageAccess {
 public:
  explicit PageAccess(std::string key) : key_(std::move(key)) {}

  /// Errors: what to answer instead. 421: the name in Host may be somebody else's, who has it lead
  /// here (DNS rebinding) and can't have the key; 403: a page of another origin asks; 401: no key,
  /// or another one.
  struct Refusal {
    int status = 0;
    std::string text;
  };

  /// Nothing (status 0): it is well. `wants_key`: all but the page's own files and /healthz.
  Refusal Check(const PageRequest& request, bool wants_key) const;

 private:
  const std::string key_;
};

/// Whether a Host header names this machine whatever DNS says: a number, localhost, or the name
/// that the machine gives itself.
bool IsOwnHost(std::string_view host, std::string_view machine_name);

/// "http://127.0.0.1:4711/#KEY".
std::string PageLink(const HostPort& address, std::string_view key);

}  // namespace ps::run
