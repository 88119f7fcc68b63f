/* SPDX-License-Identifier: Apache-2.0
 *
 * values.hpp: the values of accounts and slots, as a client of Monad DB stores them, and what
 * of them Ethereum's trie hashes.
 *
 * An account is the list [address, incarnation, nonce, balance, code hash], without the last if
 * it has no code; a slot is [key, value]. statelab knows only hashes, so the account's gives
 * the address its 20 bytes, and the slot's stands for its key. No root depends on either.
 */
#pragma once

#include <statelab_state.h>

#include <category/core/byte_string.hpp>
#include <category/core/rlp/encode.hpp>
#include <category/mpt/node.hpp>

namespace statelab
{
	using monad::byte_string;
	using monad::byte_string_view;

	/* The root of a trie without keys, and the hash of no code. */
	inline constexpr statelab_hash EMPTY_ROOT{{0x56, 0xe8, 0x1f, 0x17, 0x1b, 0xcc, 0x55, 0xa6, 0xff, 0x83, 0x45, 0xe6, 0x92, 0xc0, 0xf8, 0x6e,
	                                           0x5b, 0x48, 0xe0, 0x1b, 0x99, 0x6c, 0xad, 0xc0, 0x01, 0x62, 0x2f, 0xb5, 0xe3, 0x63, 0xb4, 0x21}};
	inline constexpr statelab_hash NO_CODE{{0xc5, 0xd2, 0x46, 0x01, 0x86, 0xf7, 0x23, 0x3c, 0x92, 0x7e, 0x7d, 0xb2, 0xdc, 0xc7, 0x03, 0xc0,
	                                        0xe5, 0x00, 0xb6, 0x53, 0xca, 0x82, 0x27, 0x3b, 0x7b, 0xfa, 0xd8, 0x04, 0x5d, 0x85, 0xa4, 0x70}};

	inline byte_string_view view(statelab_hash const &hash, size_t bytes = 32) { return {hash.bytes, bytes}; }

	inline byte_string_view trimmed(byte_string_view number) { return number.substr(std::min(number.find_first_not_of('\0'), number.size())); }

	inline byte_string string(byte_string_view bytes)
	{
		byte_string out(monad::rlp::string_length(bytes), 0);
		monad::rlp::encode_string(out, bytes);
		return out;
	}

	inline byte_string list(byte_string_view items)
	{
		byte_string out(monad::rlp::list_length(items.size()), 0);
		monad::rlp::encode_list(out, items);
		return out;
	}

	struct Item
	{
		byte_string_view whole, payload;
	};

	/* Cuts the first item off rest: of a value of this file's, so none is longer than 255 bytes. */
	inline Item take(byte_string_view &rest)
	{
		unsigned char const first = rest.at(0);
		size_t head = 1, bytes = first < 0xc0 ? first - 0x80u : first - 0xc0u;
		if (first < 0x80) head = 0, bytes = 1;
		if (first >= 0xf8) head = 2, bytes = rest.at(1);
		Item const item{rest.substr(0, head + bytes), rest.substr(head, bytes)};
		rest.remove_prefix(head + bytes);
		return item;
	}

	/* The items of a value behind the first n. */
	inline byte_string_view items_behind(unsigned n, byte_string_view value)
	{
		byte_string_view rest = take(value).payload;
		for (; n > 0; n--) take(rest);
		return rest;
	}

	inline byte_string encode(statelab_hash const &name, statelab_account const &account)
	{
		unsigned char nonce[8];
		for (unsigned i = 0; i < 8; i++) nonce[i] = static_cast<unsigned char>(account.nonce >> (56 - 8 * i));
		byte_string items = string(view(name, 20)) + string({}) + string(trimmed({nonce, 8})) + string(trimmed({account.balance, 32}));
		if (view(account.code) != view(NO_CODE)) items += string(view(account.code));
		return list(items);
	}

	inline byte_string encode(statelab_slot const &slot)
	{
		return list(string(view(slot.key)) + string({slot.value, static_cast<size_t>(slot.value_bytes)}));
	}

	inline void decode(byte_string_view value, statelab_account &account)
	{
		auto rest = items_behind(2, value);
		account = statelab_account{.nonce = 0, .balance = {}, .code = NO_CODE};
		for (unsigned char const byte : take(rest).payload) account.nonce = account.nonce << 8 | byte;
		auto const balance = take(rest).payload;
		balance.copy(account.balance + 32 - balance.size(), balance.size());
		if (!rest.empty()) take(rest).payload.copy(account.code.bytes, 32);
	}

	inline void decode(byte_string_view value, statelab_slot &slot)
	{
		auto rest = items_behind(1, value);
		slot.value_bytes = static_cast<int32_t>(take(rest).payload.copy(slot.value, sizeof slot.value));
	}

	/* What the trie hashes of an account: [nonce, balance, storage root, code hash]. */
	struct AccountLeaf
	{
		static byte_string process(monad::mpt::Node const &node)
		{
			auto rest = items_behind(2, node.value());
			byte_string items{take(rest).whole};
			items += take(rest).whole;
			items += string(node.number_of_children() ? node.data() : view(EMPTY_ROOT));
			return list(items + (rest.empty() ? string(view(NO_CODE)) : byte_string{rest}));
		}
	};

	/* And of a slot: its value. */
	struct SlotLeaf
	{
		static byte_string_view process(monad::mpt::Node const &node) { return items_behind(1, node.value()); }
	};
}
