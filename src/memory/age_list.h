// Lists by age that allocate nothing.
#pragma once

#include <utility>

namespace weft::memory {

/// The place of a T in one list.
template <class T>
struct AgeLinks {
  T* newer = nullptr;
  T* older = nullptr;
};

/// Items of T linked through their member `Links`, newest to oldest. Owns none of them: giving memory back must not
/// fail, so what holds it can't ask the host for more.
template <class T, AgeLinks<T> T::* Links>
class AgeList {
 public:
  AgeList() = default;
  AgeList(const AgeList&) = delete;
  AgeList& operator=(const AgeList&) = delete;

  bool empty() const noexcept { return newest_ == nullptr; }
  T* newest() const noexcept { return newest_; }
  T* oldest() const noexcept { return oldest_; }

  void push_newest(T* item) noexcept {
    item->*Links = {nullptr, newest_};
    (newest_ != nullptr ? (newest_->*Links).newer : oldest_) = item;
    newest_ = item;
  }
  /// `item` must be in this list.
  void remove(T* item) noexcept {
    const AgeLinks<T> links = std::exchange(item->*Links, {});
    (links.newer != nullptr ? (links.newer->*Links).older : newest_) = links.older;
    (links.older != nullptr ? (links.older->*Links).newer : oldest_) = links.newer;
  }
  /// Null when there is none.
  T* pop_oldest() noexcept {
    T* item = oldest_;
    if (item != nullptr) remove(item);
    return item;
  }

 private:
  T* newest_ = nullptr;
  T* oldest_ = nullptr;
};

}  // namespace weft::memory
