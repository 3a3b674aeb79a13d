#include "ps/crypto/tls.h"

#include <fmt/core.h>
#include <openssl/err.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "ps/base/check.h"
#include "ps/crypto/openssl_types.h"

namespace ps::crypto {
namespace {

constexpr size_t kRecordBytes = size_t{16} << 10;
/// So much ciphertext is collected for one call of the wire, and read ahead by one.
constexpr size_t kWireBytes = size_t{128} << 10;
constexpr std::string_view kRolePrefix = "spotps:";
/// OpenSSL's reason for an alert that came from the peer is its number (RFC 8446, 6) and this.
constexpr int kAlertReasons = SSL_AD_REASON_OFFSET;

constexpr const char* kCopyAgain =
    "; copy the token file of this run again, and look at the clocks of both machines";

BioPtr ReadBio(const std::string& text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

/// Why a certificate is not taken: OpenSSL's number.
std::string CertificateProblem(long code) {
  switch (code) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return std::string("has expired") + kCopyAgain;
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return std::string("is not valid yet") + kCopyAgain;
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      return "is of another run: use this run's address with this run's token file";
    default:
      return std::string("does not do: ") + X509_verify_cert_error_string(code);
  }
}

/// What the peer says of this side's certificate, by the number of its alert; empty: nothing.
std::string AlertText(int alert) {
  switch (alert) {
    case SSL_AD_CERTIFICATE_EXPIRED:
      return std::string("the peer says that this side's certificate has expired") + kCopyAgain;
    case SSL_AD_UNKNOWN_CA:
    case SSL_AD_DECRYPT_ERROR:
      return "the peer says that this side's certificate is of another run: use this run's address "
             "with this run's token file";
    case SSL_AD_CERTIFICATE_REQUIRED:
      return "the peer wants a certificate: use this run's token file";
    case SSL_AD_BAD_CERTIFICATE:
    case SSL_AD_CERTIFICATE_UNKNOWN:
    case SSL_AD_UNSUPPORTED_CERTIFICATE:
    case SSL_AD_ACCESS_DENIED:
      return "the peer does not take this side's certificate: use this run's token file";
    default:
      return "";
  }
}

/// What OpenSSL reads from and writes to. Writing always succeeds: ciphertext waits here until the
/// wire takes it, so that OpenSSL never asks for a write to be repeated.
struct WireEnds {
  Wire* wire = nullptr;
  bool has_ended = false;      // the wire has no more to read
  Status failure;              // of the wire
  std::vector<std::byte> out;  // unsent from `sent` on
  size_t sent = 0;

  size_t unsent() const { return out.size() - sent; }
};

WireEnds* EndsOf(BIO* bio) {
  return static_cast<WireEnds*>(BIO_get_data(bio));
}

int ReadWire(BIO* bio, char* target, int size) {
  WireEnds* const ends = EndsOf(bio);
  BIO_clear_retry_flags(bio);
  const IoResult result =
      ends->wire->ReceiveBytes({reinterpret_cast<std::byte*>(target), static_cast<size_t>(size)});
  if (result.would_block) {
    BIO_set_retry_read(bio);
    return -1;
  }
  ends->has_ended = ends->has_ended || result.is_end;
  if (!result.status.ok()) {
    ends->failure = result.status;
    return -1;
  }
  return static_cast<int>(result.bytes);
}

int WriteWire(BIO* bio, const char* bytes, int size) {
  WireEnds* const ends = EndsOf(bio);
  BIO_clear_retry_flags(bio);
  const auto* const begin = reinterpret_cast<const std::byte*>(bytes);
  ends->out.insert(ends->out.end(), begin, begin + size);
  return size;
}

long ControlWire(BIO* /*bio*/, int command, long /*number*/, void* /*pointer*/) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

BIO_METHOD* WireMethod() {
  static const BioMethodPtr method = [] {
    BioMethodPtr made(BIO_meth_new(BIO_TYPE_SOURCE_SINK, "wire"));
    BIO_meth_set_read(made.get(), &ReadWire);
    BIO_meth_set_write(made.get(), &WriteWire);
    BIO_meth_set_ctrl(made.get(), &ControlWire);
    return made;
  }();
  return method.get();
}

/// The roles that a certificate names.
std::vector<std::string> RolesOf(const X509* certificate) {
  std::vector<std::string> roles;
  const NamesPtr names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) {
      continue;
    }
    const ASN1_STRING* const text = name->d.uniformResourceIdentifier;
    const std::string_view uri(
        reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
        static_cast<size_t>(ASN1_STRING_length(text)));
    if (uri.starts_with(kRolePrefix)) {
      roles.emplace_back(uri.substr(kRolePrefix.size()));
    }
  }
  return roles;
}

}  // namespace

struct TlsContext::Impl {
  ContextPtr context;
  uint64_t key_bytes = 0;
};

TlsContext::TlsContext() : impl_(std::make_unique<Impl>()) {}

TlsContext::~TlsContext() = default;

Result<std::shared_ptr<const TlsContext>> TlsContext::Make(
    const std::string& pem, uint64_t key_bytes) {
  const BioPtr certificates = ReadBio(pem);
  const CertificatePtr own = ReadPemCertificate(certificates.get());
  const CertificatePtr authority = ReadPemCertificate(certificates.get());
  const BioPtr keys = ReadBio(pem);
  const KeyPtr key = ReadPemKey(keys.get());
  ContextPtr context(SSL_CTX_new(TLS_method()));
  PS_CHECK(context != nullptr) << TakeErrors();
  SSL_CTX* const raw = context.get();
  if (own == nullptr || authority == nullptr || key == nullptr ||
      SSL_CTX_use_certificate(raw, own.get()) != 1 || SSL_CTX_use_PrivateKey(raw, key.get()) != 1 ||
      X509_STORE_add_cert(SSL_CTX_get_cert_store(raw), authority.get()) != 1) {
    return Status::InvalidArgument(fmt::format(
        "has no certificate, key and authority as psctl writes them ({}); copy the run's token "
        "file whole",
        TakeErrors()));
  }
  if (X509_cmp_current_time(X509_get0_notAfter(own.get())) < 0) {
    return Status::InvalidArgument(fmt::format("has a certificate that has expired{}", kCopyAgain));
  }
  SSL_CTX_set_min_proto_version(raw, TLS1_3_VERSION);
  SSL_CTX_set_verify(raw, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_session_cache_mode(raw, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(raw, 0);
  SSL_CTX_set_mode(raw, SSL_MODE_RELEASE_BUFFERS);  // a silent connection needs none
  SSL_CTX_set_read_ahead(raw, 1);
  SSL_CTX_set_default_read_buffer_len(raw, kWireBytes);
  std::shared_ptr<TlsContext> made(new TlsContext());
  made->impl_->context = std::move(context);
  made->impl_->key_bytes = key_bytes;
  return std::shared_ptr<const TlsContext>(std::move(made));
}

struct TlsSession::Impl {
  SessionPtr ssl;
  WireEnds ends;
  std::array<std::byte, kRecordBytes> record;  // small parts are put together to one
};

TlsSession::TlsSession(
    const TlsContext& context, Side side, std::vector<std::string> peer_roles, Wire* wire)
    : impl_(std::make_unique<Impl>()),
      expected_roles_(std::move(peer_roles)),
      key_bytes_(context.impl_->key_bytes),
      key_bytes_left_(key_bytes_) {
  impl_->ends.wire = wire;
  impl_->ssl.reset(SSL_new(context.impl_->context.get()));
  PS_CHECK(impl_->ssl != nullptr) << TakeErrors();
  BIO* const bio = BIO_new(WireMethod());
  PS_CHECK(bio != nullptr) << TakeErrors();
  BIO_set_data(bio, &impl_->ends);
  BIO_set_init(bio, 1);
  SSL_set_bio(impl_->ssl.get(), bio, bio);
  if (side == Side::kAccepts) {
    SSL_set_accept_state(impl_->ssl.get());
  } else {
    SSL_set_connect_state(impl_->ssl.get());
  }
}

TlsSession::~TlsSession() = default;

bool TlsSession::has_unsent() const {
  return impl_->ends.unsent() > 0;
}

bool TlsSession::HasPeerRole(std::string_view role) const {
  return std::find(peer_roles_.begin(), peer_roles_.end(), role) != peer_roles_.end();
}

/// True once the handshake is over. Else fills in why there is nothing to receive or to send.
bool TlsSession::Handshake(IoResult* result) {
  if (!is_ready_ && failure_.ok()) {
    ERR_clear_error();
    const int code = SSL_do_handshake(impl_->ssl.get());
    if (code == 1) {
      failure_ = CheckPeer();
      is_refusing_ = !failure_.ok();
      is_ready_ = failure_.ok();
    } else if (SSL_get_error(impl_->ssl.get(), code) == SSL_ERROR_WANT_READ) {
      result->would_block = true;
      result->is_drained = true;
    } else {
      Fail(code);
    }
    FlushWire();
  }
  result->status = failure_;
  return is_ready_ && failure_.ok();
}

Status TlsSession::CheckPeer() {
  peer_roles_ = RolesOf(SSL_get0_peer_certificate(impl_->ssl.get()));
  const bool is_expected =
      expected_roles_.empty() ||
      std::any_of(expected_roles_.begin(), expected_roles_.end(), [this](const std::string& role) {
        return HasPeerRole(role);
      });
  if (is_expected) {
    return Status::Ok();
  }
  SendEnd();
  return Status::InvalidArgument(fmt::format(
      "the peer's certificate is of a {}, and a {} should be at this address; look at the address",
      peer_roles_.empty() ? "stranger" : peer_roles_.front(),
      expected_roles_.front()));
}

/// Notes why a call of OpenSSL failed for good.
void TlsSession::Fail(int code) {
  const int kind = SSL_get_error(impl_->ssl.get(), code);
  const WireEnds& ends = impl_->ends;
  if (kind == SSL_ERROR_ZERO_RETURN) {
    is_ended_ = true;
    return;
  }
  if (!ends.failure.ok()) {
    failure_ = ends.failure;
    return;
  }
  if (ends.has_ended) {
    failure_ = Status::Unavailable(
        is_ready_ ? "the connection was cut: the peer closed it without the end that TLS has"
                  : "the peer closed the connection during the TLS handshake");
    return;
  }
  const unsigned long error = ERR_peek_error();
  const int reason = ERR_GET_REASON(error);
  if (const std::string alert = AlertText(reason - kAlertReasons);
      reason >= kAlertReasons && !alert.empty()) {
    failure_ = Status::InvalidArgument(alert);
    return;
  }
  is_refusing_ = true;
  std::string text;
  if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED) {
    text = "the peer's certificate " + CertificateProblem(SSL_get_verify_result(impl_->ssl.get()));
  } else if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) {
    text = "the peer showed no certificate: it has to use this run's token file";
  } else if (is_ready_) {
    failure_ = Status::Corruption(
        fmt::format("the received bytes are not TLS of this connection: {}", TakeErrors()));
    return;
  } else {
    text = "the peer does not speak the TLS 1.3 of a run (" + TakeErrors() +
           "); is this the address of another program?";
  }
  failure_ = Status::InvalidArgument(text);
}

IoResult TlsSession::Receive(std::span<iovec> targets) {
  IoResult result;
  if (!Handshake(&result)) {
    return result;
  }
  SSL* const ssl = impl_->ssl.get();
  ERR_clear_error();
  for (const iovec& target : targets) {
    size_t filled = 0;
    while (filled < target.iov_len && !is_ended_) {
      size_t count = 0;
      const int code = SSL_read_ex(
          ssl, static_cast<std::byte*>(target.iov_base) + filled, target.iov_len - filled, &count);
      if (code == 1) {
        filled += count;
        result.bytes += count;
        continue;
      }
      if (SSL_get_error(ssl, code) == SSL_ERROR_WANT_READ) {
        result.would_block = result.bytes == 0;
        result.is_drained = true;
        return result;
      }
      Fail(code);
      if (!failure_.ok()) {
        FlushWire();  // the alert
        result.status = result.bytes == 0 ? failure_ : Status::Ok();
        return result;
      }
    }
  }
  result.is_end = is_ended_ && result.bytes == 0;
  return result;
}

IoResult TlsSession::Send(std::span<const iovec> parts) {
  IoResult result;
  if (!Handshake(&result)) {
    FlushWire();
    result.would_block = has_unsent();
    return result;
  }
  SSL* const ssl = impl_->ssl.get();
  ERR_clear_error();
  size_t part = 0;
  size_t offset = 0;
  while (true) {
    if (impl_->ends.unsent() >= kWireBytes || part == parts.size()) {
      FlushWire();
    }
    if (part == parts.size() || !send_failure_.ok() || impl_->ends.unsent() >= kWireBytes) {
      break;
    }
    // As it is, when it fills a record; else together with what follows.
    const auto* bytes = static_cast<const std::byte*>(parts[part].iov_base) + offset;
    size_t size = std::min(parts[part].iov_len - offset, kWireBytes);
    if (size >= kRecordBytes) {
      offset += size;
    } else {
      bytes = impl_->record.data();
      size = 0;
      while (part < parts.size() && size < kRecordBytes) {
        const size_t taken = std::min(parts[part].iov_len - offset, kRecordBytes - size);
        std::memcpy(
            impl_->record.data() + size,
            static_cast<const std::byte*>(parts[part].iov_base) + offset,
            taken);
        size += taken;
        offset += taken;
        if (offset == parts[part].iov_len) {
          ++part;
          offset = 0;
        }
      }
    }
    if (part < parts.size() && offset == parts[part].iov_len) {
      ++part;
      offset = 0;
    }
    if (size == 0) {
      continue;
    }
    size_t written = 0;
    const int code = SSL_write_ex(ssl, bytes, size, &written);
    if (code != 1) {
      Fail(code);
      send_failure_ = failure_;
      break;
    }
    result.bytes += written;
    RenewKey(written);
  }
  result.status = send_failure_;
  result.would_block = has_unsent();
  return result;
}

void TlsSession::RenewKey(size_t written) {
  key_bytes_left_ -= std::min<uint64_t>(key_bytes_left_, written);
  if (key_bytes_left_ == 0) {
    key_bytes_left_ = key_bytes_;
    PS_CHECK(SSL_key_update(impl_->ssl.get(), SSL_KEY_UPDATE_NOT_REQUESTED) == 1) << TakeErrors();
  }
}

void TlsSession::SendEnd() {
  if (SSL_is_init_finished(impl_->ssl.get()) == 1) {
    SSL_shutdown(impl_->ssl.get());  // 0 or less: the peer's is not awaited
  }
  ERR_clear_error();
}

/// Hands the wire what it takes.
void TlsSession::FlushWire() {
  WireEnds& ends = impl_->ends;
  while (ends.unsent() > 0) {
    const IoResult sent = ends.wire->SendBytes(std::span(ends.out).subspan(ends.sent));
    if (!sent.status.ok()) {
      send_failure_ = sent.status;
      ends.out.clear();
      ends.sent = 0;
      return;
    }
    if (sent.would_block) {
      break;
    }
    ends.sent += sent.bytes;
  }
  if (ends.sent == ends.out.size() || ends.sent >= kWireBytes) {
    ends.out.erase(ends.out.begin(), ends.out.begin() + static_cast<std::ptrdiff_t>(ends.sent));
    ends.sent = 0;
  }
}

}  // namespace ps::crypto
