import"./c.OUBH2E7M.js";import"./c.URT4J3IX.js";import"./c.WIBA5JIC.js";import"./c.NIMKLZQK.js";import"./c.LYXALABG.js";import"./c.W7VN5GBK.js";
