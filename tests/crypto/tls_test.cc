#include "ps/crypto/tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <deque>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ps/crypto/certificates.h"

namespace ps::crypto {
namespace {

using testing::HasSubstr;
using Side = TlsSession::Side;

/// One end of two bounded queues.
class TestWire final : public Wire {
 public:
  IoResult ReceiveBytes(std::span<std::byte> target) override {
    IoResult result;
    result.bytes = std::min({target.size(), in->size(), receive_max});
    result.would_block = result.bytes == 0 && !*in_ended;
    result.is_end = result.bytes == 0 && *in_ended;
    std::copy_n(in->begin(), result.bytes, target.begin());
    in->erase(in->begin(), in->begin() + static_cast<std::ptrdiff_t>(result.bytes));
    return result;
  }

  IoResult SendBytes(std::span<const std::byte> bytes) override {
    IoResult result;
    result.bytes = std::min(bytes.size(), room - std::min(room, out->size()));
    result.would_block = result.bytes == 0;
    out->insert(
        out->end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(result.bytes));
    return result;
  }

  std::deque<std::byte>* in = nullptr;
  std::deque<std::byte>* out = nullptr;
  bool* in_ended = nullptr;
  size_t room = std::numeric_limits<size_t>::max();
  size_t receive_max = std::numeric_limits<size_t>::max();
};

std::shared_ptr<const TlsContext> ContextOf(
    const std::string& pem, uint64_t key_bytes = TlsContext::kKeyBytes) {
  auto context = TlsContext::Make(pem, key_bytes);
  EXPECT_TRUE(context.ok()) << context.status();
  return *context;
}

/// A connection without a socket.
class Pair {
 public:
  Pair(
      const TlsContext& client_context,
      const TlsContext& server_context,
      std::vector<std::string> client_expects = {}) {
    client_wire.in = server_wire.out = &to_client;
    client_wire.out = server_wire.in = &to_server;
    client_wire.in_ended = &to_client_ended;
    server_wire.in_ended = &to_server_ended;
    client = std::make_unique<TlsSession>(
        client_context, Side::kConnects, std::move(client_expects), &client_wire);
    server = std::make_unique<TlsSession>(
        server_context, Side::kAccepts, std::vector<std::string>(), &server_wire);
  }

  /// Until nothing moves any more, with what both sides end with.
  void Shake() {
    for (int i = 0; i < 10; ++i) {
      client_end = client->Send({}).status;
      server_end = Read(server.get(), &received);
      const Status client_read = Read(client.get(), &answered);
      client_end = client_read.ok() ? client_end : client_read;
    }
  }

  static Status Read(TlsSession* session, std::vector<std::byte>* into) {
    while (true) {
      std::array<std::byte, 70000> bytes;
      std::array<iovec, 2> targets = {{{bytes.data(), 3}, {bytes.data() + 3, bytes.size() - 3}}};
      const IoResult result = session->Receive(targets);
      into->insert(
          into->end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(result.bytes));
      if (result.bytes == 0) {
        return result.is_end ? Status::Cancelled("the end") : result.status;
      }
    }
  }

  std::deque<std::byte> to_client;
  std::deque<std::byte> to_server;
  bool to_client_ended = false;
  bool to_server_ended = false;
  TestWire client_wire;
  TestWire server_wire;
  std::unique_ptr<TlsSession> client;
  std::unique_ptr<TlsSession> server;
  std::vector<std::byte> received;  // by the server
  std::vector<std::byte> answered;
  Status client_end;
  Status server_end;
};

class TlsTest : public testing::Test {
 protected:
  const Authority authority_ = Authority::Make();
  const std::shared_ptr<const TlsContext> worker_ =
      ContextOf(authority_.Issue("worker3", {kWorkerRole}));
  const std::shared_ptr<const TlsContext> server_ =
      ContextOf(authority_.Issue("server0", {kServerRole}));
};

std::vector<std::byte> Pattern(size_t size) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>(i * 31 + i / 251);
  }
  return bytes;
}

/// In parts of many sizes, through a wire that takes little at once.
void SendAll(Pair* pair, const std::vector<std::byte>& bytes) {
  size_t sent = 0;
  while (sent < bytes.size() || pair->client->has_unsent()) {
    std::vector<iovec> parts;
    size_t at = sent;
    for (size_t size = 1; at < bytes.size() && parts.size() < 9; size *= 11) {
      const size_t part = std::min(size, bytes.size() - at);
      parts.push_back({const_cast<std::byte*>(bytes.data() + at), part});
      at += part;
    }
    const IoResult result = pair->client->Send(parts);
    ASSERT_TRUE(result.status.ok()) << result.status;
    sent += result.bytes;
    ASSERT_TRUE(Pair::Read(pair->server.get(), &pair->received).ok());
  }
}

TEST_F(TlsTest, PeersOfOneRunKnowEachOthersRolesAndBytesArriveAsTheyAre) {
  Pair pair(*worker_, *server_, {std::string(kServerRole)});
  EXPECT_FALSE(pair.client->HasPeerRole(kServerRole));
  pair.Shake();
  ASSERT_TRUE(pair.client->is_ready() && pair.server->is_ready())
      << pair.client_end << pair.server_end;
  EXPECT_TRUE(pair.server->HasPeerRole(kWorkerRole));
  EXPECT_FALSE(pair.server->HasPeerRole(kServerRole));
  EXPECT_TRUE(pair.client->HasPeerRole(kServerRole));
  pair.client_wire.room = 20000;
  pair.server_wire.receive_max = 777;
  const std::vector<std::byte> bytes = Pattern(3'000'000);
  SendAll(&pair, bytes);
  EXPECT_TRUE(pair.received == bytes);
}

TEST_F(TlsTest, AKeyIsRenewedAfterSoManyBytesAndNobodyNotices) {
  const auto renewing = ContextOf(authority_.Issue("worker3", {kWorkerRole}), 1000);
  Pair pair(*renewing, *server_);
  pair.Shake();
  const std::vector<std::byte> bytes = Pattern(500'000);
  SendAll(&pair, bytes);
  EXPECT_TRUE(pair.received == bytes);
}

TEST_F(TlsTest, AnEndIsToldApartFromACut) {
  Pair pair(*worker_, *server_);
  pair.Shake();
  pair.client->SendEnd();
  pair.client->Send({});
  EXPECT_EQ(Pair::Read(pair.server.get(), &pair.received).code(), StatusCode::kCancelled);

  Pair cut(*worker_, *server_);
  cut.Shake();
  cut.to_server_ended = true;
  const Status end = Pair::Read(cut.server.get(), &cut.received);
  EXPECT_EQ(end.code(), StatusCode::kUnavailable);
  EXPECT_THAT(end.message(), HasSubstr("cut"));
  EXPECT_FALSE(cut.server->is_refusing());
}

TEST_F(TlsTest, WhatWasSentBeforeTheEndIsReadBeforeIt) {
  Pair pair(*worker_, *server_);
  pair.Shake();
  std::vector<std::byte> bytes = Pattern(100);
  std::array<iovec, 1> parts = {{{bytes.data(), bytes.size()}}};
  pair.client->Send(parts);
  pair.client->SendEnd();
  pair.client->Send({});
  EXPECT_EQ(Pair::Read(pair.server.get(), &pair.received).code(), StatusCode::kCancelled);
  EXPECT_TRUE(pair.received == bytes);
}

TEST_F(TlsTest, ACertificateOfAnotherRunIsRefusedInWordsOnBothSides) {
  const auto foreign = ContextOf(Authority::Make().Issue("worker3", {kWorkerRole}));
  Pair as_client(*foreign, *server_);
  as_client.Shake();
  // The client looks first, and at a server that is of another run for it.
  EXPECT_FALSE(as_client.client->is_ready() || as_client.server->is_ready());
  EXPECT_EQ(as_client.client_end.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(
      as_client.client_end.message(), HasSubstr("the peer's certificate is of another run"));
  EXPECT_TRUE(as_client.client->is_refusing());
  EXPECT_THAT(
      as_client.server_end.message(),
      HasSubstr("the peer says that this side's certificate is of another run"));
  EXPECT_FALSE(as_client.server->is_refusing());
}

TEST_F(TlsTest, AServerLooksAtTheClientsCertificateToo) {
  // The client has the right authority, and a certificate of another one.
  const std::string own = authority_.Issue("worker3", {kWorkerRole});
  const std::string foreign = Authority::Make().Issue("worker3", {kWorkerRole});
  const std::string authority = own.substr(own.rfind("-----BEGIN"));
  const auto mixed = ContextOf(foreign.substr(0, foreign.rfind("-----BEGIN")) + authority);
  Pair pair(*mixed, *server_);
  pair.Shake();
  EXPECT_FALSE(pair.server->is_ready());
  EXPECT_TRUE(pair.server->is_refusing());
  EXPECT_THAT(pair.server_end.message(), HasSubstr("the peer's certificate is of another run"));
  EXPECT_THAT(pair.client_end.message(), HasSubstr("this side's certificate is of another run"));
  EXPECT_EQ(pair.client_end.code(), StatusCode::kInvalidArgument);
}

/// A client that OpenSSL would let do what TlsContext does not: it shows what is in `pem`, if
/// anything, and looks at nothing.
void ShakeWithStranger(Pair* pair, const std::string& pem) {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(
      SSL_CTX_new(TLS_method()), &SSL_CTX_free);
  if (!pem.empty()) {
    BIO* const text = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
    X509* const certificate = PEM_read_bio_X509(text, nullptr, nullptr, nullptr);
    EVP_PKEY* const key = PEM_read_bio_PrivateKey(text, nullptr, nullptr, nullptr);
    EXPECT_EQ(SSL_CTX_use_certificate(context.get(), certificate), 1);
    EXPECT_EQ(SSL_CTX_use_PrivateKey(context.get(), key), 1);
    X509_free(certificate);
    EVP_PKEY_free(key);
    BIO_free(text);
  }
  const std::unique_ptr<SSL, decltype(&SSL_free)> stranger(SSL_new(context.get()), &SSL_free);
  BIO* const in = BIO_new(BIO_s_mem());
  BIO* const out = BIO_new(BIO_s_mem());
  SSL_set_bio(stranger.get(), in, out);
  SSL_set_connect_state(stranger.get());
  for (int i = 0; i < 4; ++i) {
    SSL_do_handshake(stranger.get());
    std::array<char, 4096> bytes;
    for (int n = 0; (n = BIO_read(out, bytes.data(), bytes.size())) > 0;) {
      const auto* const begin = reinterpret_cast<std::byte*>(bytes.data());
      pair->to_server.insert(pair->to_server.end(), begin, begin + n);
    }
    pair->server_end = Pair::Read(pair->server.get(), &pair->received);
    for (const std::byte byte : pair->to_client) {
      BIO_write(in, &byte, 1);
    }
    pair->to_client.clear();
  }
}

TEST_F(TlsTest, APeerWithoutACertificateOrWithAnExpiredOneIsRefusedInWords) {
  const std::pair<std::string, const char*> strangers[] = {
      {"", "showed no certificate"},
      {authority_.Issue("worker3", {kWorkerRole}, {-std::chrono::hours(9), -std::chrono::hours(1)}),
       "the peer's certificate has expired"}};
  for (const auto& [pem, words] : strangers) {
    Pair pair(*worker_, *server_);
    ShakeWithStranger(&pair, pem);
    EXPECT_FALSE(pair.server->is_ready());
    EXPECT_TRUE(pair.server->is_refusing());
    EXPECT_EQ(pair.server_end.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(pair.server_end.message(), HasSubstr(words));
  }
}

TEST_F(TlsTest, AnExpiredOrFutureCertificateIsRefusedInWords) {
  using std::chrono::hours;
  const auto server_of = [this](Validity validity) {
    return authority_.Issue("server0", {kServerRole}, validity);
  };
  // It is expired by the time that the client looks at it; Make would not take it before.
  EXPECT_THAT(
      TlsContext::Make(server_of({-hours(48), -hours(24)})).status().message(),
      HasSubstr("expired"));
  const auto future = ContextOf(server_of({hours(24), hours(48)}));
  Pair pair(*worker_, *future);
  pair.Shake();
  EXPECT_THAT(pair.client_end.message(), HasSubstr("is not valid yet"));
  EXPECT_THAT(pair.client_end.message(), HasSubstr("clocks"));
  EXPECT_FALSE(pair.server_end.ok());
  EXPECT_FALSE(pair.server->is_ready());
}

TEST_F(TlsTest, ARoleThatIsNotExpectedIsRefusedBeforeAnythingIsSaid) {
  const auto other = ContextOf(authority_.Issue("worker9", {kWorkerRole}));
  Pair pair(*worker_, *other, {std::string(kCoordinatorRole)});
  pair.Shake();
  EXPECT_FALSE(pair.client->is_ready());
  EXPECT_TRUE(pair.client->is_refusing());
  EXPECT_THAT(
      pair.client_end.message(),
      HasSubstr("certificate is of a worker, and a coordinator should be at this address"));
}

TEST_F(TlsTest, GarbageInsteadOfAHandshakeOrWithinAConnectionIsRefused) {
  for (const std::string& garbage :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(600, 'x')}) {
    Pair pair(*worker_, *server_);
    for (const char c : garbage) {
      pair.to_server.push_back(static_cast<std::byte>(c));
    }
    pair.server_end = Pair::Read(pair.server.get(), &pair.received);
    EXPECT_EQ(pair.server_end.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(pair.server_end.message(), HasSubstr("does not speak the TLS 1.3"));
  }
  Pair pair(*worker_, *server_);
  pair.Shake();
  std::vector<std::byte> bytes = Pattern(100);
  std::array<iovec, 1> parts = {{{bytes.data(), bytes.size()}}};
  pair.client->Send(parts);
  pair.to_server.back() ^= std::byte{1};
  EXPECT_EQ(Pair::Read(pair.server.get(), &pair.received).code(), StatusCode::kCorruption);
  EXPECT_TRUE(pair.received.empty());
}

TEST_F(TlsTest, APemThatIsCutIsRefused) {
  const std::string pem = authority_.Issue("worker3", {kWorkerRole});
  EXPECT_TRUE(TlsContext::Make(pem).ok());
  for (size_t i = 0; i < pem.size() - 2; i += 97) {
    const auto context = TlsContext::Make(pem.substr(0, i));
    EXPECT_EQ(context.status().code(), StatusCode::kInvalidArgument) << i;
  }
}

/// OpenSSL would ask for the password at the terminal, where nobody may be.
TEST_F(TlsTest, AKeyWithAPasswordIsRefusedWithoutAQuestion) {
  const std::string pem = authority_.Issue("worker3", {kWorkerRole});
  const size_t begin = pem.find("-----BEGIN PRIVATE KEY-----");
  ASSERT_NE(begin, std::string::npos);
  const std::unique_ptr<BIO, decltype(&BIO_free)> plain(
      BIO_new_mem_buf(pem.data() + begin, static_cast<int>(pem.size() - begin)), &BIO_free);
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
      PEM_read_bio_PrivateKey(plain.get(), nullptr, nullptr, nullptr), &EVP_PKEY_free);
  const std::unique_ptr<BIO, decltype(&BIO_free)> locked(BIO_new(BIO_s_mem()), &BIO_free);
  std::string password = "secret";
  ASSERT_EQ(
      PEM_write_bio_PKCS8PrivateKey(
          locked.get(),
          key.get(),
          EVP_aes_128_cbc(),
          password.data(),
          static_cast<int>(password.size()),
          nullptr,
          nullptr),
      1);
  char* text = nullptr;
  const long size = BIO_get_mem_data(locked.get(), &text);
  const std::string with_password = pem.substr(0, begin) +
                                    std::string(text, static_cast<size_t>(size)) +
                                    pem.substr(pem.rfind("-----BEGIN CERTIFICATE-----"));
  EXPECT_EQ(TlsContext::Make(with_password).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Authority::Read(with_password).status().code(), StatusCode::kCorruption);
}

TEST_F(TlsTest, AnAuthorityIsReadBackAndSignsForTheSameRun) {
  const auto again = Authority::Read(authority_.pem());
  ASSERT_TRUE(again.ok()) << again.status();
  const auto later = ContextOf(again->Issue("worker4", {kWorkerRole}));
  Pair pair(*later, *server_);
  pair.Shake();
  EXPECT_TRUE(pair.server->is_ready()) << pair.server_end;
  EXPECT_FALSE(Authority::Read("").ok());
  EXPECT_FALSE(Authority::Read(authority_.pem().substr(0, 300)).ok());
}

}  // namespace
}  // namespace ps::crypto
