import"./c.J35JHQDT.js";
