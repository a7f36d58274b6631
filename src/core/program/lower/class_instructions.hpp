#pragma once
#include <initializer_list>
#include <vector>

#include "class_draft.hpp"

/// Instructions as they are appended to a phase. A instruction that another queue's instruction feeds waits for it explicitly; instructions
/// of the compute queue follow one another by queue order alone.
namespace flotilla::program {

/// On the sum queue where it is a collective, else on the compute queue.
Instruction once_per_step(std::string name, Instruction::Work work, bool backward);
/// To the phase at hand; index into RankClass::instructions.
int add_instruction(ClassDraft& draft, Instruction instruction);
/// The next compute instruction waits for this event of the same microbatch; -1: for none.
void let_next_wait_for(ClassDraft& draft, int event);
int add_compute(ClassDraft& draft, const ChunkDraft& chunk, model::Operation operation, int layer, std::vector<Access> accesses,
                bool recompute = false);
/// Weights of a layer, and its gradients.
std::vector<Access> weights_of(const ClassDraft& draft, const ChunkDraft& chunk, int layer, bool gradients);
/// Of the table that both ends use. One that is not shared is among its layer's tensors.
std::vector<Access> token_embedding_table(const ClassDraft& draft, bool gradients);
/// All of them, without those whose buffers the class does not have.
std::vector<Access> joined(std::vector<Access> a, std::initializer_list<std::vector<Access>> more);
/// All-reduce, or reduce-scatter, of the tensor-parallel group's partial products; -1 where there is no group.
int sum_partial(ClassDraft& draft, int layer, int producer, bool backward);
/// An operation on this member's rows, and the gathering of what the next one needs of everybody's.
void add_begin(ClassDraft& draft, const ChunkDraft& chunk, model::Operation operation, int layer, std::vector<Access> accesses,
               bool recompute, std::initializer_list<int> gathered);

}  // namespace flotilla::program
