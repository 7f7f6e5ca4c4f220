#include "io/zip.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <limits>

#include "io/malformed.h"

namespace weft::io {
namespace {

constexpr std::string_view kWriteAgain = "write or download the archive again";
constexpr std::uint32_t kLocalSignature = 0x04034b50;
constexpr std::uint32_t kCentralSignature = 0x02014b50;
constexpr std::uint32_t kEndSignature = 0x06054b50;
constexpr std::uint32_t kEnd64Signature = 0x06064b50;
constexpr std::uint32_t kLocator64Signature = 0x07064b50;
constexpr std::size_t kLocalSize = 30;
constexpr std::size_t kCentralSize = 46;
constexpr std::size_t kEndSize = 22;
constexpr std::size_t kEnd64Size = 56;
constexpr std::size_t kLocator64Size = 20;
constexpr std::uint16_t kEncrypted = 0x0001 | 0x0040 | 0x2000;
constexpr std::uint16_t kStored = 0;
constexpr std::uint16_t kDeflate = 8;

/// Little-endian fields of the archive, each read bounds-checked.
class Fields {
 public:
  Fields(std::span<const std::byte> bytes, std::string_view name) : bytes_(bytes), name_(name) {}

  template <class T>
  T get(std::uint64_t at) const {
    need(at, sizeof(T));
    return read_as<T>(bytes_.data() + at);
  }
  std::string text(std::uint64_t at, std::size_t length) const {
    need(at, length);
    return {reinterpret_cast<const char*>(bytes_.data()) + at, length};
  }
  std::uint64_t size() const { return bytes_.size(); }
  [[noreturn]] void fail(std::string_view what) const {
    malformed(name_, fmt::format("bad zip archive: {}", what), kWriteAgain);
  }

 private:
  void need(std::uint64_t at, std::uint64_t length) const {
    if (at > bytes_.size() || length > bytes_.size() - at) {
      fail(fmt::format("{} bytes at {} lie outside the file of {}", length, at, bytes_.size()));
    }
  }

  std::span<const std::byte> bytes_;
  std::string_view name_;
};

struct Directory {
  std::uint64_t begin = 0;  ///< where it really starts
  std::uint64_t end = 0;
  std::uint64_t shift = 0;  ///< bytes in front of the archive, which its offsets do not count
  std::uint64_t entries = 0;
};

std::uint64_t find_end(const Fields& zip) {
  if (zip.size() >= kEndSize) {
    const std::uint64_t last = zip.size() - kEndSize;
    const std::uint64_t first = last - std::min<std::uint64_t>(last, 0xffff);
    for (std::uint64_t at = last + 1; at-- > first;) {
      if (zip.get<std::uint32_t>(at) == kEndSignature && zip.get<std::uint16_t>(at + 20) <= last - at) return at;
    }
  }
  zip.fail("no end of central directory; the file is cut or no zip");
}

Directory find_directory(const Fields& zip) {
  const std::uint64_t end = find_end(zip);
  Directory out;
  out.end = end;
  std::uint32_t disks = zip.get<std::uint16_t>(end + 4) | zip.get<std::uint16_t>(end + 6);
  out.entries = zip.get<std::uint16_t>(end + 10);
  std::uint64_t size = zip.get<std::uint32_t>(end + 12);
  std::uint64_t offset = zip.get<std::uint32_t>(end + 16);

  const bool zip64 =
      end >= kLocator64Size + kEnd64Size && zip.get<std::uint32_t>(end - kLocator64Size) == kLocator64Signature;
  if (zip64) {
    // The record stands right before its locator unless it has an extension, which nobody writes.
    const std::uint64_t at = end - kLocator64Size - kEnd64Size;
    if (zip.get<std::uint32_t>(at) != kEnd64Signature) zip.fail("no zip64 end of central directory");
    disks = zip.get<std::uint32_t>(at + 16) | zip.get<std::uint32_t>(at + 20);
    out.entries = zip.get<std::uint64_t>(at + 32);
    size = zip.get<std::uint64_t>(at + 40);
    offset = zip.get<std::uint64_t>(at + 48);
    out.end = at;
  }
  if (disks != 0) zip.fail("it is split over several files");
  if (size > out.end || offset > out.end - size) {
    zip.fail(fmt::format("a central directory of {} bytes at {} does not fit before {}", size, offset, out.end));
  }
  out.begin = out.end - size;
  out.shift = out.begin - offset;
  return out;
}

/// Replaces the sizes and the offset that are all ones by the 64-bit ones of the extra field, in the fixed order.
void read_zip64_extra(const Fields& zip, std::uint64_t at, std::uint64_t end, ZipEntry& entry) {
  constexpr std::uint64_t kAllOnes = 0xffffffff;
  while (end - at >= 4) {
    const auto id = zip.get<std::uint16_t>(at);
    const std::uint64_t field_end = at + 4 + zip.get<std::uint16_t>(at + 2);
    if (field_end > end) zip.fail("an extra field is cut");
    at += 4;
    if (id == 1) {
      for (std::uint64_t* value : {&entry.size, &entry.compressed_size, &entry.header_offset}) {
        if (*value != kAllOnes) continue;
        if (field_end - at < 8) zip.fail("a zip64 field is cut");
        *value = zip.get<std::uint64_t>(at);
        at += 8;
      }
      return;
    }
    at = field_end;
  }
}

Memory inflated(const Memory& packed, std::uint64_t size, std::string_view name) {
  // Deflate packs at most 1032 to 1: a larger claim is a lie, and is not allocated.
  constexpr std::uint64_t kMaxRatio = 1032;
  if (size / kMaxRatio > packed.bytes.size()) {
    malformed(name, fmt::format("claims {} bytes out of {} compressed ones", size, packed.bytes.size()), kWriteAgain);
  }
  const auto capacity = static_cast<std::size_t>(size);
  auto data = allocate(capacity, name);
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) malformed(name, "zlib does not start", "free memory");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> closer(&stream, inflateEnd);

  constexpr std::size_t kChunk = std::numeric_limits<uInt>::max();
  std::span<const std::byte> in = packed.bytes;
  std::size_t done = 0;
  int state = Z_OK;
  Bytef surplus = 0;  // one byte of room past the end, to see data that the directory does not announce
  while (state == Z_OK) {
    const std::size_t in_now = std::min(in.size(), kChunk);
    const bool full = done == capacity;
    const std::size_t out_now = full ? 1 : std::min(capacity - done, kChunk);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(in.data()));
    stream.avail_in = static_cast<uInt>(in_now);
    stream.next_out = full ? &surplus : reinterpret_cast<Bytef*>(data.get() + done);
    stream.avail_out = static_cast<uInt>(out_now);
    state = inflate(&stream, Z_NO_FLUSH);
    in = in.subspan(in_now - stream.avail_in);
    const std::size_t produced = out_now - stream.avail_out;
    if (full && produced != 0)
      malformed(name, fmt::format("holds more than the {} bytes announced", size), kWriteAgain);
    done += produced;
  }
  if (state != Z_STREAM_END) {
    malformed(name, fmt::format("damaged deflate data after {} bytes ({})", done, stream.msg ? stream.msg : "cut"),
              kWriteAgain);
  }
  if (done != capacity) malformed(name, fmt::format("truncated: need {} bytes, have {}", size, done), kWriteAgain);
  const std::span<const std::byte> bytes(data.get(), capacity);
  return {bytes, std::move(data), false};
}

}  // namespace

bool is_zip(std::span<const std::byte> file) noexcept {
  if (file.size() < 4) return false;
  const auto signature = read_as<std::uint32_t>(file.data());
  return signature == kLocalSignature || signature == kEndSignature;
}

std::vector<ZipEntry> read_zip_directory(const Memory& file, std::string_view name) {
  const Fields zip(file.bytes, name);
  const Directory directory = find_directory(zip);
  std::vector<ZipEntry> entries;
  std::uint64_t at = directory.begin;
  while (at < directory.end) {
    if (directory.end - at < kCentralSize || zip.get<std::uint32_t>(at) != kCentralSignature) {
      zip.fail(fmt::format("no directory entry at {}", at));
    }
    ZipEntry entry;
    entry.flags = zip.get<std::uint16_t>(at + 8);
    entry.method = zip.get<std::uint16_t>(at + 10);
    entry.crc = zip.get<std::uint32_t>(at + 16);
    entry.compressed_size = zip.get<std::uint32_t>(at + 20);
    entry.size = zip.get<std::uint32_t>(at + 24);
    const std::size_t name_size = zip.get<std::uint16_t>(at + 28);
    const std::size_t extra_size = zip.get<std::uint16_t>(at + 30);
    const std::size_t comment_size = zip.get<std::uint16_t>(at + 32);
    entry.header_offset = zip.get<std::uint32_t>(at + 42);
    entry.name = zip.text(at + kCentralSize, name_size);
    const std::uint64_t extra = at + kCentralSize + name_size;
    if (extra + extra_size + comment_size > directory.end) zip.fail("a directory entry is cut");
    read_zip64_extra(zip, extra, extra + extra_size, entry);
    if (entry.header_offset > directory.begin - directory.shift) {
      zip.fail(
          fmt::format("member '{}' starts at {}, past the directory", printable(entry.name, 100), entry.header_offset));
    }
    entry.header_offset += directory.shift;
    entries.push_back(std::move(entry));
    at = extra + extra_size + comment_size;
  }
  if (entries.size() != directory.entries) {
    zip.fail(fmt::format("{} members announced, {} found", directory.entries, entries.size()));
  }
  return entries;
}

Memory read_zip_entry(const Memory& file, const ZipEntry& entry, std::string_view name) {
  const Fields zip(file.bytes, name);
  if ((entry.flags & kEncrypted) != 0) unsupported(name, "encrypted", "write the archive without a password");
  if (entry.method != kStored && entry.method != kDeflate) {
    unsupported(name, fmt::format("compression method {}; known are 0 (stored) and 8 (deflate)", entry.method),
                "write the archive with numpy.savez or numpy.savez_compressed");
  }
  if (zip.get<std::uint32_t>(entry.header_offset) != kLocalSignature) zip.fail("no local header where it should be");
  const std::size_t name_size = zip.get<std::uint16_t>(entry.header_offset + 26);
  const std::size_t extra_size = zip.get<std::uint16_t>(entry.header_offset + 28);
  if (zip.text(entry.header_offset + kLocalSize, name_size) != entry.name) {
    zip.fail("the local header has another name than the directory");
  }
  const std::uint64_t begin = entry.header_offset + kLocalSize + name_size + extra_size;
  if (begin > zip.size() || entry.compressed_size > zip.size() - begin) {
    zip.fail(fmt::format("truncated: need {} bytes at {}, the file has {}", entry.compressed_size, begin, zip.size()));
  }
  const Memory packed = file.part(static_cast<std::size_t>(begin), static_cast<std::size_t>(entry.compressed_size));
  if (entry.method == kStored && entry.size != entry.compressed_size) {
    zip.fail(fmt::format("a stored member of {} bytes takes {}", entry.size, entry.compressed_size));
  }
  Memory content = entry.method == kStored ? packed : inflated(packed, entry.size, name);
  const auto crc = static_cast<std::uint32_t>(
      crc32_z(crc32_z(0, nullptr, 0), reinterpret_cast<const Bytef*>(content.bytes.data()), content.bytes.size()));
  if (crc != entry.crc) {
    malformed(name, fmt::format("damaged: CRC {:08x}, should be {:08x}", crc, entry.crc), kWriteAgain);
  }
  return content;
}

}  // namespace weft::io
