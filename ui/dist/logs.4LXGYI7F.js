import"./c.5QI6HH5N.js";import"./c.ONYEH6N7.js";
