// Which plan an op takes for which shapes, where that was measured (weft/tune.h) and not left to the op's own rules.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace weft::dispatch {

/// An op's plan as numbers, by rules of the op's own. No numbers: what the op chooses by itself.
struct TuningPlan {
  static constexpr std::size_t kMost = 20;
  std::array<std::uint32_t, kMost> values{};
  std::uint32_t count = 0;

  TuningPlan() = default;
  TuningPlan(std::initializer_list<std::uint32_t> numbers);
  bool operator==(const TuningPlan&) const = default;
};

/// The power of two that `length` (from 1) is nearest to by ratio, as its exponent: 0 holds 1 alone, 1 holds 2, 2 holds
/// 3 to 5, 10 holds 725 to 1,448. Lengths of one class share a choice, which is measured at the power itself.
std::uint32_t size_class(std::uint64_t length) noexcept;
constexpr std::uint64_t class_length(std::uint32_t size_class) noexcept {
  return std::uint64_t{1} << size_class;
}
/// The length at which the class of `length` is measured, where classes from `most` on are one.
inline std::uint64_t typical_length(std::uint64_t length, std::uint32_t most) noexcept {
  return class_length(std::min(size_class(length), most));
}

/// Names a shape class, in words: "matmul float32 gpu nt m12 n12 k10 b0". The first word is the op. Made without
/// allocating.
class TuningKey {
 public:
  static constexpr std::size_t kMostBytes = 96;
  /// Appends a word, behind a blank where it is not the first. Throws Error{internal} past kMostBytes.
  TuningKey& add(std::string_view word);
  /// Appends `name` and the number as one word.
  TuningKey& add(std::string_view name, std::uint32_t number);
  std::string_view text() const noexcept { return {text_.data(), size_}; }

 private:
  void append(std::string_view text);
  std::array<char, kMostBytes> text_;
  std::size_t size_ = 0;
};

using TuningChoices = std::map<std::string, TuningPlan, std::less<>>;

class TuningTable;

/// While one lives, look-ups of its thread in its table are noted, and those of one key get a plan that is tried: how a
/// tuner runs an op by each of its plans through the op's own interface. Scoped, as StreamScope.
class TuningTrial {
 public:
  struct Asked {
    std::string key;
    std::vector<TuningPlan> candidates;  ///< the op's own choice for the class first
  };

  /// Notes, and lets every op choose by itself.
  explicit TuningTrial(const TuningTable& table) noexcept;
  /// Look-ups of `key` get `plan`; others what the table says. Nothing is noted.
  TuningTrial(const TuningTable& table, std::string key, const TuningPlan& plan);
  ~TuningTrial();
  TuningTrial(const TuningTrial&) = delete;
  TuningTrial& operator=(const TuningTrial&) = delete;

  /// Each key once, in the order in which they came.
  const std::vector<Asked>& asked() const noexcept { return asked_; }
  /// Look-ups that got the plan.
  std::uint64_t uses() const noexcept { return uses_; }

 private:
  friend class TuningTable;
  static TuningTrial* of(const TuningTable& table) noexcept;

  const TuningTable& table_;
  TuningTrial* const outer_;
  const bool observes_;
  std::string key_;
  TuningPlan plan_;
  std::vector<Asked> asked_;
  std::uint64_t uses_ = 0;
};

/// A device's choices. Any thread.
class TuningTable {
 public:
  static constexpr std::size_t kMostChoices = 4096;

  /// False: no look-up can find anything, and none need be made.
  bool in_use() const noexcept { return count_.load(std::memory_order_relaxed) != 0 || trials_on_this_thread() != 0; }

  /// The plan for a class; nothing where the op is to choose by itself. `candidates()` gives the plans that the device
  /// can run for the class (as a vector, the op's own choice first): a stored plan that is not among them is ignored.
  /// It is asked once for each stored plan.
  template <class Candidates>
  std::optional<TuningPlan> find(const TuningKey& key, Candidates&& candidates) {
    if (TuningTrial* trial = TuningTrial::of(*this)) {
      if (trial->observes_) {
        note(*trial, key.text(), candidates());
        return std::nullopt;
      }
      if (trial->key_ == key.text()) {
        ++trial->uses_;
        return trial->plan_.count == 0 ? std::nullopt : std::optional(trial->plan_);
      }
    }
    std::optional<Entry> entry = look_up(key.text());
    if (!entry) return std::nullopt;
    if (entry->verdict == Verdict::open) {
      const std::vector<TuningPlan> usable = candidates();
      entry->verdict = judge(key.text(), entry->plan, usable);
    }
    if (entry->verdict != Verdict::usable) return std::nullopt;
    uses_.fetch_add(1, std::memory_order_relaxed);
    return entry->plan;
  }

  /// Adds or replaces one; false when the table is full.
  bool set(std::string_view key, const TuningPlan& plan);
  /// Adds or replaces all, up to the bound.
  void set(const TuningChoices& choices);
  void clear();
  TuningChoices choices() const;
  bool has(std::string_view key) const;
  std::size_t size() const noexcept { return count_.load(std::memory_order_relaxed); }
  /// Ops that ran by a choice of the table.
  std::uint64_t uses() const noexcept { return uses_.load(std::memory_order_relaxed); }

 private:
  enum class Verdict : std::uint8_t { open, usable, ignored };
  struct Entry {
    TuningPlan plan;
    Verdict verdict = Verdict::open;
  };
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept { return std::hash<std::string_view>()(text); }
  };

  static int trials_on_this_thread() noexcept;
  static void note(TuningTrial& trial, std::string_view key, std::vector<TuningPlan> candidates);
  std::optional<Entry> look_up(std::string_view key) const;
  Verdict judge(std::string_view key, const TuningPlan& plan, const std::vector<TuningPlan>& candidates);

  mutable std::mutex mutex_;
  std::unordered_map<std::string, Entry, Hash, std::equal_to<>> entries_;
  std::atomic<std::size_t> count_{0};
  std::atomic<std::uint64_t> uses_{0};
};

}  // namespace weft::dispatch
