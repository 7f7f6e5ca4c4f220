#include "dispatch/tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>

#include "weft/error.h"

namespace weft::dispatch {
namespace {

thread_local TuningTrial* innermost_trial = nullptr;
thread_local int trial_count = 0;

}  // namespace

TuningPlan::TuningPlan(std::initializer_list<std::uint32_t> numbers) {
  if (numbers.size() > kMost) {
    throw Error(ErrorCode::internal, fmt::format("a tuning plan of {} numbers, over {}", numbers.size(), kMost),
                "report this");
  }
  std::copy(numbers.begin(), numbers.end(), values.begin());
  count = static_cast<std::uint32_t>(numbers.size());
}

std::uint32_t size_class(std::uint64_t length) noexcept {
  if (length <= 1) return 0;
  const auto below = static_cast<std::uint32_t>(std::bit_width(length)) - 1;
  if (below >= 31) return below;
  // Above the root of two times the power, the next one is nearer.
  return length * length > std::uint64_t{2} << (2 * below) ? below + 1 : below;
}

void TuningKey::append(std::string_view text) {
  if (size_ + text.size() > kMostBytes) {
    throw Error(ErrorCode::internal,
                fmt::format("the tuning key '{}{}' is over {} bytes", this->text(), text, kMostBytes), "report this");
  }
  std::copy(text.begin(), text.end(), text_.begin() + static_cast<std::ptrdiff_t>(size_));
  size_ += text.size();
}

TuningKey& TuningKey::add(std::string_view word) {
  if (size_ > 0) append(" ");
  append(word);
  return *this;
}

TuningKey& TuningKey::add(std::string_view name, std::uint32_t number) {
  std::array<char, 10> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  add(name);
  append({digits.data(), static_cast<std::size_t>(end - digits.data())});
  return *this;
}

TuningTrial::TuningTrial(const TuningTable& table) noexcept
    : table_(table), outer_(std::exchange(innermost_trial, this)), observes_(true) {
  ++trial_count;
}

TuningTrial::TuningTrial(const TuningTable& table, std::string key, const TuningPlan& plan)
    : table_(table), outer_(std::exchange(innermost_trial, this)), observes_(false), key_(std::move(key)), plan_(plan) {
  ++trial_count;
}

TuningTrial::~TuningTrial() {
  innermost_trial = outer_;
  --trial_count;
}

TuningTrial* TuningTrial::of(const TuningTable& table) noexcept {
  for (TuningTrial* t = innermost_trial; t != nullptr; t = t->outer_) {
    if (&t->table_ == &table) return t;
  }
  return nullptr;
}

int TuningTable::trials_on_this_thread() noexcept {
  return trial_count;
}

void TuningTable::note(TuningTrial& trial, std::string_view key, std::vector<TuningPlan> candidates) {
  const auto same = [&](const TuningTrial::Asked& a) { return a.key == key; };
  if (std::any_of(trial.asked_.begin(), trial.asked_.end(), same)) return;
  trial.asked_.push_back({std::string(key), std::move(candidates)});
}

std::optional<TuningTable::Entry> TuningTable::look_up(std::string_view key) const {
  const std::lock_guard lock(mutex_);
  const auto it = entries_.find(key);
  return it == entries_.end() ? std::nullopt : std::optional(it->second);
}

TuningTable::Verdict TuningTable::judge(std::string_view key, const TuningPlan& plan,
                                        const std::vector<TuningPlan>& candidates) {
  const bool usable = plan.count > 0 && std::find(candidates.begin(), candidates.end(), plan) != candidates.end();
  const Verdict verdict = usable ? Verdict::usable : Verdict::ignored;
  const std::lock_guard lock(mutex_);
  const auto it = entries_.find(key);
  if (it != entries_.end() && it->second.plan == plan) it->second.verdict = verdict;
  return verdict;
}

bool TuningTable::set(std::string_view key, const TuningPlan& plan) {
  const std::lock_guard lock(mutex_);
  const auto it = entries_.find(key);
  if (it != entries_.end()) {
    it->second = {plan, Verdict::open};
    return true;
  }
  if (entries_.size() >= kMostChoices) return false;
  entries_.emplace(std::string(key), Entry{plan, Verdict::open});
  count_.store(entries_.size(), std::memory_order_relaxed);
  return true;
}

void TuningTable::set(const TuningChoices& choices) {
  for (const auto& [key, plan] : choices) set(key, plan);
}

void TuningTable::clear() {
  const std::lock_guard lock(mutex_);
  entries_.clear();
  count_.store(0, std::memory_order_relaxed);
}

TuningChoices TuningTable::choices() const {
  TuningChoices out;
  const std::lock_guard lock(mutex_);
  for (const auto& [key, entry] : entries_) out.emplace(key, entry.plan);
  return out;
}

bool TuningTable::has(std::string_view key) const {
  const std::lock_guard lock(mutex_);
  return entries_.find(key) != entries_.end();
}

}  // namespace weft::dispatch
